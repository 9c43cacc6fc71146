import { connect } from 'node:net'
import { afterEach, describe, expect, it } from 'vitest'
import { type AdminServer, startAdmin } from '../../../src/http/admin.ts'

const started: AdminServer[] = []
afterEach(() => {
  for (const server of started.splice(0)) server.stop()
})

interface Fake {
  port?: number
  ready?: boolean
  scrape?: () => Promise<string>
}

async function admin(fake: Fake = {}) {
  const server = await startAdmin({
    host: '127.0.0.1',
    port: fake.port ?? 0,
    metrics: { contentType: 'text/plain; version=0.0.4; charset=utf-8', scrape: fake.scrape ?? (async () => 'a 1\n') },
    onFault: (error) => {
      throw error
    },
    health: { ready: () => fake.ready ?? true, parts: () => ({ queue: 'connected', redis: 'away' }) },
  })
  started.push(server)
  return { server, url: `http://127.0.0.1:${server.port}`, fake }
}

describe('admin port', () => {
  it('sends the metrics with their content type', async () => {
    const { url } = await admin()
    const answer = await fetch(`${url}/metrics`)
    expect(answer.status).toBe(200)
    expect(answer.headers.get('content-type')).toBe('text/plain; version=0.0.4; charset=utf-8')
    expect(await answer.text()).toBe('a 1\n')
  })

  it('makes one page for simultaneous scrapes', async () => {
    let made = 0
    const { url } = await admin({
      scrape: async () => {
        made++
        await new Promise((resolve) => setTimeout(resolve, 50))
        return `a ${made}\n`
      },
    })
    const pages = await Promise.all(Array.from({ length: 10 }, async () => (await fetch(`${url}/metrics`)).text()))
    expect(new Set(pages).size).toBeLessThan(10)
    expect(await (await fetch(`${url}/metrics`)).text()).toBe(`a ${made}\n`)
  })

  it('is alive while it is not ready', async () => {
    const { url } = await admin({ ready: false })
    expect((await fetch(`${url}/livez`)).status).toBe(200)
    expect((await fetch(`${url}/readyz`)).status).toBe(503)
  })

  it('is ready until the drain', async () => {
    const { url, fake } = await admin({ ready: true })
    expect((await fetch(`${url}/readyz`)).status).toBe(200)
    fake.ready = false
    const answer = await fetch(`${url}/readyz`)
    expect([answer.status, await answer.text()]).toEqual([503, 'not ready\n'])
  })

  it('lists the parts as lines, or as JSON on request', async () => {
    const { url } = await admin()
    expect(await (await fetch(`${url}/readyz?verbose`)).text()).toBe('ok\nqueue: connected\nredis: away\n')
    const answer = await fetch(`${url}/readyz?verbose`, { headers: { accept: 'application/json' } })
    expect(answer.headers.get('content-type')).toBe('application/json')
    expect(await answer.json()).toEqual({ ready: true, parts: { queue: 'connected', redis: 'away' } })
  })

  it('lists its pages at /, as text or as JSON on request, and each of them is there', async () => {
    const { url } = await admin()
    const text = await fetch(url)
    expect([text.status, text.headers.get('content-type')]).toEqual([200, 'text/plain; charset=utf-8'])
    const answer = await fetch(url, { headers: { accept: 'application/json' } })
    expect(answer.headers.get('content-type')).toBe('application/json')
    const { pages } = (await answer.json()) as { pages: { path: string }[] }
    const paths = pages.map(({ path }) => path)
    expect(paths).toEqual(['/metrics', '/livez', '/readyz'])
    const page = await text.text()
    for (const path of paths) {
      expect(page).toMatch(new RegExp(`^${path} +[0-9a-z]`, 'm'))
      expect((await fetch(`${url}${path}`)).status).toBe(200)
    }
  })

  it('answers HEAD with the length and no body', async () => {
    const { url } = await admin()
    for (const path of ['/', '/metrics', '/livez', '/readyz']) {
      const answer = await fetch(`${url}${path}`, { method: 'HEAD' })
      expect([answer.status, await answer.text()]).toEqual([200, ''])
      expect(Number(answer.headers.get('content-length'))).toBeGreaterThan(0)
    }
  })

  it('answers other methods 405 and other paths 404, as JSON', async () => {
    const { url } = await admin()
    const refused = await fetch(`${url}/livez`, { method: 'POST', body: 'x' })
    expect([refused.status, refused.headers.get('allow')]).toEqual([405, 'GET, HEAD'])
    expect(await refused.json()).toMatchObject({ error: 'method_not_allowed' })
    const missing = await fetch(`${url}/api/v1/events`)
    expect(missing.status).toBe(404)
    expect(await missing.json()).toMatchObject({ error: 'not_found' })
  })

  it('reports a port that is in use', async () => {
    const { server } = await admin()
    server.stop()
    started.pop()
    // uSockets would share a port that is requested by its number.
    const { port } = (await admin({ port: server.port })).server
    await expect(admin({ port })).rejects.toThrow(`127.0.0.1:${port}`)
  })

  it('survives a client that leaves before its metrics are ready', async () => {
    let release: (page: string) => void = () => {}
    let asked = () => {}
    const arrived = new Promise<void>((resolve) => {
      asked = resolve
    })
    let first = true
    const { server, url } = await admin({
      scrape: async () => {
        if (!first) return 'b 2\n'
        first = false
        asked()
        return new Promise<string>((resolve) => {
          release = resolve
        })
      },
    })
    const socket = connect(server.port, '127.0.0.1')
    socket.write('GET /metrics HTTP/1.1\r\nHost: a\r\n\r\n')
    await arrived
    await new Promise<void>((resolve) => socket.once('close', () => resolve()).resetAndDestroy())
    // Once a later connection is served, the reset was noticed.
    await fetch(`${url}/livez`)
    release('late')
    expect(await (await fetch(`${url}/metrics`)).text()).toBe('b 2\n')
  })

  it('answers 500 where the metrics fail, and keeps running', async () => {
    const { url } = await admin({ scrape: () => Promise.reject(new Error('broken gauge')) })
    const answer = await fetch(`${url}/metrics`)
    expect([answer.status, await answer.json()]).toEqual([500, { error: 'internal_error', message: 'broken gauge' }])
    expect((await fetch(`${url}/livez`)).status).toBe(200)
  })
})
