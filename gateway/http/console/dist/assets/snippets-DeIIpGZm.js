import{i as e,n as t,t as n}from"./jsx-runtime-DyZJNswf.js";import{n as r}from"./createLucideIcon-CVTxbGcP.js";import{n as i}from"./bits-BIps_X4h.js";import{l as a,s as o}from"./index-6M2z3BL_.js";var s=e(t(),1),c=n(),l=[`Python`,`curl`,`TypeScript`];function u(e,t,n,r){let i=`${r}/v1`;return e===`Python`?`from openai import OpenAI

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
console.log(answer.choices[0].message.content);`}function d({value:e,models:t}){return(0,c.jsxs)(`div`,{className:`space-y-4`,children:[(0,c.jsx)(`div`,{className:`rounded-md border border-warn/40 bg-warn-soft px-3 py-2 text-[13px]`,children:`This is the only time the key is shown. Copy it now, and keep it where secrets are kept.`}),(0,c.jsxs)(`div`,{className:`flex items-center gap-2`,children:[(0,c.jsx)(`code`,{"aria-label":`The new key`,className:`min-w-0 flex-1 truncate rounded-md border bg-sunken px-2.5 py-1.5 font-mono text-[13px]`,children:e}),(0,c.jsx)(i,{text:e,label:`Copy key`,look:`primary`})]}),(0,c.jsx)(f,{value:e,models:t})]})}function f({value:e,models:t}){let[n,d]=(0,s.useState)(`Python`),[f,p]=(0,s.useState)(null),m=f??t[0]??`your-model`,h=u(n,e,m,location.origin);return(0,c.jsxs)(`div`,{children:[(0,c.jsxs)(`div`,{className:`mb-2 flex flex-wrap items-end gap-2`,children:[(0,c.jsx)(`div`,{role:`group`,"aria-label":`Language`,className:`flex rounded-md border p-0.5`,children:l.map(e=>(0,c.jsx)(`button`,{type:`button`,"aria-pressed":e===n,onClick:()=>d(e),className:r(`h-6 rounded px-2.5 text-[13px] font-medium`,e===n?`bg-accent-soft text-accent-ink`:`text-ink-2 hover:text-ink`),children:e},e))}),t.length>1&&(0,c.jsx)(o,{label:`Model`,className:`ml-auto min-w-40`,children:(0,c.jsx)(a,{value:m,onChange:e=>p(e.target.value),children:t.map(e=>(0,c.jsx)(`option`,{children:e},e))})})]}),(0,c.jsxs)(`div`,{className:`relative rounded-md border bg-sunken`,children:[(0,c.jsx)(`pre`,{className:`overflow-x-auto p-3 pr-24 font-mono text-[12.5px] leading-5`,children:(0,c.jsx)(`code`,{children:h})}),(0,c.jsx)(`div`,{className:`absolute top-2 right-2`,children:(0,c.jsx)(i,{text:h})})]})]})}export{d as t};