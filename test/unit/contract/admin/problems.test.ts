// The tables of errors, beside the documents of both ports.

import { readFileSync } from 'node:fs'
import { resolve } from 'node:path'
import { Ajv2020 } from 'ajv/dist/2020.js'
import { describe, expect, it } from 'vitest'
import { parse } from 'yaml'
import { PORTAL_PROBLEMS, PROBLEMS, type ProblemRow, problemOf } from '../../../../src/contract/admin/problems.ts'
import { type Answer, portalProblem, problem } from '../../../../src/http/admin-routes.ts'

interface Document {
  readonly paths: Readonly<Record<string, Readonly<Record<string, { responses?: Readonly<Record<string, unknown>> }>>>>
  readonly components: {
    readonly schemas: Readonly<Record<string, { properties: { error: { enum: string[] } } }>>
    readonly responses: Readonly<Record<string, unknown>>
  }
}

/** Each word that both ports have, with a message. */
type Make = (error: keyof typeof PROBLEMS & keyof typeof PORTAL_PROBLEMS, message: string) => Answer

const PORTS = [
  { file: 'openapi-admin.yaml', schema: 'Error', table: PROBLEMS, answer: problem as Make, elsewhere: [405, 500] },
  {
    file: 'openapi-portal.yaml',
    schema: 'PortalError',
    table: PORTAL_PROBLEMS,
    answer: portalProblem as Make,
    elsewhere: [404, 405, 500],
  },
] as const

/** By status: the words. */
const STATUSES = {
  'openapi-admin.yaml': {
    400: 'bad_request bad_record',
    401: 'token_wanted',
    403: 'console_off foreign_origin read_only',
    404: 'not_found no_such_app no_such_key',
    405: 'method_not_allowed',
    409: 'key_exists apps_in_file',
    412: 'precondition_failed',
    413: 'payload_too_large',
    415: 'unsupported_media_type',
    421: 'foreign_host',
    429: 'too_many_tries',
    500: 'internal_error',
    503: 'too_many_watchers draining starting busy unavailable',
  },
  'openapi-portal.yaml': {
    400: 'bad_request',
    401: 'key_wanted',
    403: 'foreign_origin',
    404: 'not_found',
    405: 'method_not_allowed',
    413: 'payload_too_large',
    421: 'foreign_host',
    429: 'too_many_tries too_many_requests too_many_searches too_many_streams busy',
    500: 'internal_error',
    503: 'unavailable',
  },
}

describe.each(PORTS)('$file', ({ file, schema, table, answer, elsewhere }) => {
  const document = parse(readFileSync(resolve(import.meta.dirname, '../../../..', file), 'utf8')) as Document
  const rows = Object.entries(table) as [keyof typeof table, ProblemRow][]
  const statuses = [...new Set(rows.map(([, [status]]) => status))].toSorted((one, other) => one - other)

  it('names each word of the table, and no other', () => {
    expect(document.components.schemas[schema].properties.error.enum).toEqual(rows.map(([name]) => name))
  })

  it('has each status of the table for answers of this schema, and no other', () => {
    const isError = (response: unknown): boolean => JSON.stringify(response).includes(`#/components/schemas/${schema}"`)
    const responses = Object.values(document.paths)
      .flatMap((methods) => Object.values(methods))
      .flatMap((operation) => Object.entries(operation.responses ?? {}))
      .filter(([, response]) => {
        const name = /^#\/components\/responses\/(\w+)$/.exec((response as { $ref?: string }).$ref ?? '')?.[1]
        return isError(name === undefined ? response : document.components.responses[name])
      })
    const documented = new Set([...responses.map(([status]) => Number(status)), ...elsewhere])
    expect(statuses).toEqual([...documented].toSorted((one, other) => one - other))
  })

  it('holds each answer that is made of a row, and a status means the same words as before', () => {
    const ajv = new Ajv2020({ strict: false })
    ajv.addSchema(document, 'document')
    const fits = ajv.compile({ $ref: `document#/components/schemas/${schema}` })
    for (const [name, [status, message = 'said there', headers = {}]] of rows) {
      const made: Answer = answer(name, message)
      expect(made).toEqual({
        status,
        contentType: 'application/json',
        headers: { 'Cache-Control': 'no-store', ...headers },
        body: `{"error":"${name}","message":${JSON.stringify(message)}}\n`,
      })
      expect(fits(JSON.parse(made.body.toString())), name).toBe(true)
    }
    const wordsOf = (status: number): string =>
      rows
        .filter(([, row]) => row[0] === status)
        .map(([name]) => name)
        .join(' ')
    const words = statuses.map((status) => [status, wordsOf(status)])
    expect(Object.fromEntries(words)).toEqual(STATUSES[file])
  })
})

it('a word without a message of its own cannot be answered without one', () => {
  // @ts-expect-error the row has none
  expect(problem('unavailable').body).toBe('{"error":"unavailable"}\n')
  // @ts-expect-error the row has none
  expect(portalProblem('bad_request').body).toBe('{"error":"bad_request"}\n')
  // @ts-expect-error the row has none
  expect(problemOf('not_found').json).toBe('{"error":"not_found"}')
})

it('what is said of a row alone is said of a question too, and what is said instead of it', () => {
  expect(problemOf('busy')).toEqual({ status: 503, json: problem('busy').body.toString().trimEnd() })
  expect(problemOf('busy', 'later')).toEqual({ status: 503, json: '{"error":"busy","message":"later"}' })
  expect(portalProblem('busy', 'later', { 'Retry-After': '7' })).toMatchObject({
    status: 429,
    headers: { 'Retry-After': '7' },
    body: '{"error":"busy","message":"later"}\n',
  })
})
