/** A new key's value, shown once, and the first request with it in three languages. */
import { useState } from "react";
import { cn } from "@/lib/cn";
import { CopyButton } from "@/ui/bits";
import { Secret } from "@/ui/copyable";
import { Field, Select } from "@/ui/field";

export const LANGUAGES = ["Python", "curl", "TypeScript"] as const;
export type Language = (typeof LANGUAGES)[number];

export function snippet(language: Language, key: string, model: string, origin: string): string {
  const base = `${origin}/v1`;
  if (language === "Python") {
    return `from openai import OpenAI

client = OpenAI(
    base_url=${JSON.stringify(base)},
    api_key=${JSON.stringify(key)},
)
answer = client.chat.completions.create(
    model=${JSON.stringify(model)},
    messages=[{"role": "user", "content": "Hello"}],
)
print(answer.choices[0].message.content)`;
  }
  if (language === "curl") {
    return `curl ${base}/chat/completions \\
  -H "Authorization: Bearer ${key}" \\
  -H "Content-Type: application/json" \\
  -d '{"model": ${JSON.stringify(model)}, "messages": [{"role": "user", "content": "Hello"}]}'`;
  }
  return `import OpenAI from "openai";

const client = new OpenAI({
  baseURL: ${JSON.stringify(base)},
  apiKey: ${JSON.stringify(key)},
});
const answer = await client.chat.completions.create({
  model: ${JSON.stringify(model)},
  messages: [{ role: "user", content: "Hello" }],
});
console.log(answer.choices[0].message.content);`;
}

export function NewKeyShown({ value, models }: { value: string; models: string[] }) {
  return (
    <div className="space-y-4">
      <Secret label="The new key" value={value} action="Copy key">
        This is the only time the key is shown. Copy it now, and keep it where secrets are kept.
      </Secret>
      <Snippets value={value} models={models} />
    </div>
  );
}

export function Snippets({ value, models }: { value: string; models: string[] }) {
  const [language, setLanguage] = useState<Language>("Python");
  const [chosen, setChosen] = useState<string | null>(null);
  const model = chosen ?? models[0] ?? "your-model";
  const text = snippet(language, value, model, location.origin);
  return (
    <div>
      <div className="mb-2 flex flex-wrap items-end gap-2">
        <div role="group" aria-label="Language" className="flex rounded-md border p-0.5">
          {LANGUAGES.map((one) => (
            <button
              key={one}
              type="button"
              aria-pressed={one === language}
              onClick={() => setLanguage(one)}
              className={cn("h-6 rounded px-2.5 text-[13px] font-medium", one === language ? "bg-accent-soft text-accent-ink" : "text-ink-2 hover:text-ink")}
            >
              {one}
            </button>
          ))}
        </div>
        {models.length > 1 && (
          <Field label="Model" className="ml-auto min-w-40">
            <Select value={model} onChange={(event) => setChosen(event.target.value)}>
              {models.map((one) => (
                <option key={one}>{one}</option>
              ))}
            </Select>
          </Field>
        )}
      </div>
      <div className="relative rounded-md border bg-sunken">
        <pre className="overflow-x-auto p-3 pr-24 font-mono text-[12.5px] leading-5">
          <code>{text}</code>
        </pre>
        <div className="absolute top-2 right-2">
          <CopyButton text={text} />
        </div>
      </div>
    </div>
  );
}
