import type { HttpRequest, HttpResponse } from 'uWebSockets.js'
import { expect, it } from 'vitest'
import { AdminExchange, type BodyBudget } from '../../../src/http/admin-exchange.ts'

const MAX_BYTES = 524_288

/** An upload to the admin port, whose pieces the test hands over as the engine would. */
function upload(budget: BodyBudget, headers: Readonly<Record<string, string>>) {
  const seen = { status: '', bodies: [] as string[] }
  let onData: (chunk: ArrayBuffer, isLast: boolean) => void = () => {}
  let onAborted = () => {}
  const request: Partial<HttpRequest> = {
    getCaseSensitiveMethod: () => 'POST',
    getUrl: () => '/api/explain',
    getQuery: () => '',
    getHeader: (name) => headers[name as string] ?? '',
  }
  const response: Partial<HttpResponse> = {
    onAborted: (handler) => {
      onAborted = handler
      return response as HttpResponse
    },
    onData: (handler) => {
      onData = handler
      return response as HttpResponse
    },
    cork: (write) => {
      write()
      return response as HttpResponse
    },
    writeStatus: (status) => {
      seen.status = (status as string).split('\r\n')[0]
      return response as HttpResponse
    },
    end: () => response as HttpResponse,
  }
  const exchange = new AdminExchange(request as HttpRequest, response as HttpResponse, budget)
  exchange.readBody(MAX_BYTES, (body) => seen.bodies.push(body.toString()))
  return {
    seen,
    leave: () => onAborted(),
    piece: (text: string, isLast = false) => onData(new Uint8Array(Buffer.from(text)).buffer, isLast),
  }
}

const SIZED = { 'content-length': '300000' }
const CHUNKED = { 'transfer-encoding': 'chunked' }

it('counts a body by its length, however many pieces it comes in, until it is whole', () => {
  const budget = { usedBytes: 0 }
  const { piece, seen } = upload(budget, SIZED)
  for (let count = 1; count < 1000; count++) piece('x')
  expect(budget.usedBytes).toBe(300_000)
  piece('y'.repeat(299_001), true)
  expect([budget.usedBytes, seen.bodies.length, seen.bodies[0].length]).toEqual([0, 1, 300_000])
})

it('reads a body in chunks as it was sent, and counts the most that it may have', () => {
  const budget = { usedBytes: 0 }
  const { piece, seen } = upload(budget, CHUNKED)
  for (const text of ['{', '"a":1', '}']) piece(text)
  expect(budget.usedBytes).toBe(MAX_BYTES)
  piece('', true)
  expect([budget.usedBytes, seen.bodies]).toEqual([0, ['{"a":1}']])
})

it('refuses a body beyond its bound, and one that finds no room until others have left', () => {
  const budget = { usedBytes: 0 }
  const large = upload(budget, CHUNKED)
  large.piece('x'.repeat(MAX_BYTES))
  large.piece('x', true)
  expect([budget.usedBytes, large.seen]).toEqual([0, { status: '413 Content Too Large', bodies: [] }])
  const waiting = Array.from({ length: 8 }, () => upload(budget, CHUNKED))
  for (const { piece } of waiting) piece('x')
  const refused = upload(budget, SIZED)
  refused.piece('x')
  expect(refused.seen.status).toBe('503 Service Unavailable')
  waiting[0].leave()
  const taken = upload(budget, SIZED)
  taken.piece('x', true)
  expect(taken.seen.bodies).toEqual(['x'])
})
