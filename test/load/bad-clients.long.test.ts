// The script `bad-clients`, run for real, and its judge.

import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { describe, expect, test } from 'vitest'
import { RAW_CLIENTS } from '../../load/run/raw-clients.js'
import { brokenObjectives, needK6, runLoad, sentAs } from '../support/k6.ts'

const TIMEOUT_MS = 180_000

describe('the load script of bad clients', () => {
  test('nonsense of every kind gets its right answer, and good clients are accepted to the last beside it', {
    timeout: TIMEOUT_MS,
  }, async (context) => {
    needK6(context)
    // Bad requests of every kind, one after the other: some 70 of them.
    const { code, output, report } = await runLoad('bad-clients', {
      DURATION: '6s',
      RATE: '20',
      BAD_RATE: '40',
      VUS: '60',
    })
    expect(report?.verdict, output).toBe('HELD')
    expect(report?.verified, output).toMatchObject({ ok: true })
    const lines = report?.verified?.lines.join('\n') ?? ''
    for (const kind of Object.keys(RAW_CLIENTS))
      expect(lines).toMatch(new RegExp(`^${kind} +[1-9]\\d* as they must$`, 'm'))
    for (const code of ['payload_too_large', 'invalid_json', 'validation_failed', 'invalid_app_key', 'not_found']) {
      expect(sentAs(report, code), code).toBeGreaterThan(0)
    }
    expect(code).toBe(0)
  })

  test('a service that accepts whatever comes is found out, through k6 and over bare sockets', {
    timeout: TIMEOUT_MS,
  }, async (context) => {
    needK6(context)
    const server = createServer((request, response) => {
      // What the script asks first: is this the service?
      const isGet = request.method === 'GET'
      request.resume().on('end', () => {
        response.writeHead(isGet ? 405 : 202, { 'Content-Type': 'application/json' })
        response.end(isGet ? '{"error":"method_not_allowed"}' : '{"status":"accepted","events":1}')
      })
    })
    server.listen(0, '127.0.0.1')
    await once(server, 'listening')
    const { port } = server.address() as AddressInfo
    const { code, output, report } = await runLoad('bad-clients', {
      DURATION: '2s',
      RATE: '10',
      BAD_RATE: '40',
      BASE_URL: `http://127.0.0.1:${port}`,
      APP_KEY: 'ak_load_ample',
    })
    server.closeAllConnections()
    server.close()
    expect(code, output).not.toBe(0)
    expect(report?.verdict, output).toBe('FAILED')
    expect(brokenObjectives(report)).toContain('bad_answered_right{bad:broken JSON}')
    expect(report?.verified, output).toMatchObject({ ok: false })
    expect(report?.verified?.lines.join('\n')).toMatch(/WRONG: chunks beyond the cap: 202, \d+ times/)
  })
})
