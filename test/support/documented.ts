// An OpenAPI document, and whether answers are as it says.

import { readFileSync } from 'node:fs'
import { resolve } from 'node:path'
import { Ajv2020 } from 'ajv/dist/2020.js'
import { expect } from 'vitest'
import { parse } from 'yaml'
import { packageVersion } from '../../src/lib/version.ts'
import { withSchemas } from '../../tools/api-page.js'
import type { Answer } from './client.ts'

interface Operation {
  readonly responses: Readonly<Record<string, object>>
}

/** Method, documented path, query, body, status. */
export type Asked = readonly (readonly [string, string, string, string | undefined, number])[]

/** `components`: from which its schemas are written. */
export function readDocument(name: string, components: Parameters<typeof withSchemas>[1]) {
  const page = readFileSync(resolve(import.meta.dirname, '../..', name), 'utf8')
  const document = parse(page) as {
    info: { version: string }
    paths: Readonly<Record<string, Readonly<Record<string, Operation>>>>
  }
  const ajv = new Ajv2020({ strict: false, allErrors: true, validateFormats: false })
  ajv.addSchema(document, 'page')
  const expectSchema = (pointer: string, value: unknown): void => {
    const validate = ajv.compile({ $ref: `page${pointer}` })
    expect([pointer, validate(value) ? [] : validate.errors]).toEqual([pointer, []])
  }
  const operations = Object.entries(document.paths).flatMap(([path, methods]) =>
    Object.keys(methods).map((method) => [method, path] as const),
  )
  return {
    document,
    operations,
    /** In its form, `$ref`s followed; without a body where it says of none. */
    expectDocumented(answer: Answer, path: string, method: string): void {
      const response = document.paths[path]?.[method]?.responses[answer.status]
      if (response === undefined) expect.fail(`${name} has no ${answer.status} of ${method} ${path}: ${answer.text}`)
      const escaped = path.replaceAll('~', '~0').replaceAll('/', '~1').replaceAll('{', '%7B').replaceAll('}', '%7D')
      const at = `#/paths/${escaped}/${method}/responses/${answer.status}`
      const place = '$ref' in response ? String(response.$ref) : at
      if ('$ref' in response || 'content' in response)
        expectSchema(`${place}/content/application~1json/schema`, answer.json)
      else expect(answer.text).toBe('')
    },
    /** Of `#/components/schemas`. */
    expectSchema: (schema: string, value: unknown): void => expectSchema(`#/components/schemas/${schema}`, value),
    /** The page and its version; and what they are where its schemas are those of the code (npm run docs:api). */
    asItIs: [page, document.info.version],
    asItShouldBe: [withSchemas(page, components), packageVersion()],
  }
}

/** What is asked, as `operations` has it. */
export function operationsOf(asked: Asked, streams: readonly string[]): string[] {
  const all = [...asked.map(([method, path]) => `${method} ${path}`), ...streams.map((path) => `get ${path}`)]
  return [...new Set(all)].toSorted()
}
