// Every answer whose connection stays open says for how long; one that ends its connection does not.

import { test as base, describe, expect } from 'vitest'
import { type Answer, single } from '../support/client.ts'
import { aService } from '../support/fixture.ts'
import { head, openRaw, rawPost } from '../support/raw-http.ts'
import { appRecord } from '../support/service.ts'

const test = base.extend('service', { scope: 'file' }, aService({ apps: [appRecord('plain')] }))

async function ask(port: number, request: string): Promise<Answer> {
  const raw = await openRaw(port)
  raw.write(request)
  const answer = await raw.readAnswer()
  raw.close()
  if (answer === null) expect.fail('no answer')
  return answer
}

const REQUESTS: Record<string, [status: number, request: (line: string) => string]> = {
  'an accepted batch': [202, (line) => rawPost(single('ak_plain'), line === '' ? [] : [line])],
  'a body that does not fit': [400, (line) => rawPost('{}', line === '' ? [] : [line])],
  'an unknown app': [401, (line) => rawPost(single('ak_nobody'), line === '' ? [] : [line])],
  'another path': [404, (line) => head(line === '' ? [] : [line], 'GET /elsewhere HTTP/1.1')],
  'another method': [405, (line) => head(line === '' ? [] : [line], 'PUT /api/v1/events HTTP/1.1')],
  'another media type': [415, (line) => head(['Content-Length: 0', ...(line === '' ? [] : [line])])],
}

describe('the port for events', () => {
  for (const [claim, [status, request]] of Object.entries(REQUESTS)) {
    test(`${claim}: 8 s where the connection stays open`, async ({ service }) => {
      const { status: found, headers } = await ask(service.port, request(''))
      expect([found, headers['keep-alive'], headers['connection']]).toEqual([status, 'timeout=8', undefined])
    })

    test(`${claim}: nothing where the client ends the connection`, async ({ service }) => {
      const { status: found, headers } = await ask(service.port, request('Connection: close'))
      expect([found, headers['keep-alive']]).toEqual([status, undefined])
    })
  }

  test('a body whose end is in doubt: the connection ends', async ({ service }) => {
    const { headers } = await ask(service.port, head(['Content-Length: 5', 'Content-Length: 5']) + '12345')
    expect([headers['keep-alive'], headers['connection']]).toEqual([undefined, 'close'])
  })
})

describe('the admin port', () => {
  for (const path of ['/livez', '/readyz', '/metrics', '/nothing']) {
    test(`${path}: the same`, async ({ service }) => {
      const kept = await ask(service.adminPort, head([], `GET ${path} HTTP/1.1`))
      expect(kept.headers['keep-alive']).toBe('timeout=8')
      const ended = await ask(service.adminPort, head(['Connection: close'], `GET ${path} HTTP/1.1`))
      expect(ended.headers['keep-alive']).toBeUndefined()
    })
  }
})
