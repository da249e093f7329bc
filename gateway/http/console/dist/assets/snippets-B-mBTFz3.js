import{i as e,n as t,t as n}from"./jsx-runtime-DyZJNswf.js";import{c as r}from"./states-CuRtypj3.js";import{o as i}from"./table-hXjWgJxe.js";import{n as a}from"./copyable-DLqAcPF3.js";import{_ as o,b as s}from"./index-DO462zde.js";var c=e(t(),1),l=n(),u=[`Python`,`curl`,`TypeScript`];function d(e,t,n,r){let i=`${r}/v1`;return e===`Python`?`from openai import OpenAI

client = OpenAI(
    base_url=${JSON.stringify(i)},
    api_key=${JSON.stringify(t)},
)
answer = client.chat.completions.create(
    model=${JSON.stringify(n)},
    messages=[{"role": "user", "content": "Hello"}],
)
print(answer.choices[0].message.content)`:e===`curl`?`curl ${i}/chat/completions \\
  -H "Authorization: Bearer ${t}" \\
  -H "Content-Type: application/json" \\
  -d '{"model": ${JSON.stringify(n)}, "messages": [{"role": "user", "content": "Hello"}]}'`:`import OpenAI from "openai";

const client = new OpenAI({
  baseURL: ${JSON.stringify(i)},
  apiKey: ${JSON.stringify(t)},
});
const answer = await client.chat.completions.create({
  model: ${JSON.stringify(n)},
  messages: [{ role: "user", content: "Hello" }],
});
console.log(answer.choices[0].message.content);`}function f({value:e,models:t}){return(0,l.jsxs)(`div`,{className:`space-y-4`,children:[(0,l.jsx)(a,{label:`The new key`,value:e,action:`Copy key`,children:`This is the only time the key is shown. Copy it now, and keep it where secrets are kept.`}),(0,l.jsx)(p,{value:e,models:t})]})}function p({value:e,models:t}){let[n,a]=(0,c.useState)(`Python`),[f,p]=(0,c.useState)(null),m=f??t[0]??`your-model`,h=d(n,e,m,location.origin);return(0,l.jsxs)(`div`,{children:[(0,l.jsxs)(`div`,{className:`mb-2 flex flex-wrap items-end gap-2`,children:[(0,l.jsx)(`div`,{role:`group`,"aria-label":`Language`,className:`flex rounded-md border p-0.5`,children:u.map(e=>(0,l.jsx)(`button`,{type:`button`,"aria-pressed":e===n,onClick:()=>a(e),className:r(`h-6 rounded px-2.5 text-[13px] font-medium`,e===n?`bg-accent-soft text-accent-ink`:`text-ink-2 hover:text-ink`),children:e},e))}),t.length>1&&(0,l.jsx)(o,{label:`Model`,className:`ml-auto min-w-40`,children:(0,l.jsx)(s,{value:m,onChange:e=>p(e.target.value),children:t.map(e=>(0,l.jsx)(`option`,{children:e},e))})})]}),(0,l.jsxs)(`div`,{className:`relative rounded-md border bg-sunken`,children:[(0,l.jsx)(`pre`,{className:`overflow-x-auto p-3 pr-24 font-mono text-[12.5px] leading-5`,children:(0,l.jsx)(`code`,{children:h})}),(0,l.jsx)(`div`,{className:`absolute top-2 right-2`,children:(0,l.jsx)(i,{text:h})})]})]})}export{f as t};