import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import type { IncomingHttpHeaders } from 'node:http'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { gunzipSync } from 'node:zlib'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { Pages } from '../../../src/console/pages.ts'

let folder: string
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'sluice-pages-'))
  mkdirSync(join(folder, 'assets'))
  writeFileSync(join(folder, 'index.html'), '<!doctype html>')
  writeFileSync(join(folder, 'assets', 'app-1a2b.js'), 'let a')
  writeFileSync(join(folder, 'assets', 'notes.txt'), 'not for the web')
})
afterEach(() => rmSync(folder, { recursive: true }))

const ask = (path: string, headers: IncomingHttpHeaders = {}) =>
  new Pages(folder).answer({ method: 'GET', path, headers })

describe('the pages', () => {
  it('are one page for all views, which is asked for anew each time', () => {
    for (const path of ['/', '/events', '/refused', '/batch', '/apps', '/explain']) {
      expect(ask(path)).toMatchObject({ status: 200, contentType: 'text/html; charset=utf-8' })
    }
    expect(ask('/')?.headers).toMatchObject({ 'Cache-Control': 'no-cache' })
    expect(ask('/metrics')).toBe(null)
  })

  it('may load nothing but what lies here, and run no inline script', () => {
    const { headers = {} } = ask('/') ?? {}
    const policy = headers['Content-Security-Policy']
    expect(policy).toContain(
      "default-src 'none'; script-src 'self'; style-src 'self'; font-src 'self'; img-src 'self' data:",
    )
    expect(policy).toContain("frame-ancestors 'none'")
    expect(headers).toMatchObject({ 'X-Content-Type-Options': 'nosniff', 'Referrer-Policy': 'no-referrer' })
  })

  it('keep assets for a year, whose names change with them', () => {
    expect(ask('/assets/app-1a2b.js')?.headers['Cache-Control']).toContain('max-age=31536000, immutable')
  })

  it('come compressed where the browser takes that', () => {
    const answer = ask('/', { 'accept-encoding': 'br, gzip' })
    expect(answer?.headers['Content-Encoding']).toBe('gzip')
    expect(gunzipSync(answer?.body ?? '').toString()).toBe('<!doctype html>')
    expect(ask('/', { 'accept-encoding': 'gzip;q=0' })?.headers).not.toHaveProperty('Content-Encoding')
  })

  it('are not sent again where they did not change', () => {
    const etag = ask('/')?.headers['ETag']
    expect(ask('/', { 'if-none-match': `"other", W/${etag}` })?.status).toBe(304)
    expect(ask('/', { 'if-none-match': '"other"' })?.status).toBe(200)
  })

  it('are nothing else: no other file, no other type, no way up', () => {
    for (const path of ['/assets/notes.txt', '/assets/', '/assets/../index.html', '/assets/%2e%2e/index.html']) {
      expect([path, ask(path)?.status]).toEqual([path, 404])
    }
  })

  it('say in a sentence that they are not there', () => {
    rmSync(join(folder, 'index.html'))
    expect(ask('/')).toMatchObject({
      status: 404,
      body: expect.stringContaining('not in this installation'),
    })
  })
})
