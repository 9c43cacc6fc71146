import { once } from 'node:events'
import { Agent, type IncomingMessage, request } from 'node:http'
import { connect } from 'node:net'
import { text } from 'node:stream/consumers'
import { afterEach, describe, expect, it, vi } from 'vitest'
import type { Part } from '../../../src/contract/health.ts'
import { type AdminServer, startAdmin } from '../../../src/http/admin.ts'
import { type AdminRoutes, answered, type EventSink, problem } from '../../../src/http/admin-routes.ts'
import type { Log } from '../../../src/observe/log.ts'

const started: AdminServer[] = []
afterEach(() => {
  for (const server of started.splice(0)) server.stop()
})

interface Fake {
  port?: number
  ready?: boolean
  scrape?: () => Promise<string>
  parts?: readonly Part[]
  answer?: AdminRoutes['answer']
  faults?: unknown[]
}

async function admin(fake: Fake = {}) {
  const server = await startAdmin({
    host: '127.0.0.1',
    port: fake.port ?? 0,
    metrics: { contentType: 'text/plain; version=0.0.4; charset=utf-8', scrape: fake.scrape ?? (async () => 'a 1\n') },
    log: { error: ({ err }: { err: unknown }) => void (fake.faults ?? expect.fail(String(err))).push(err) } as Log,
    health: { ready: () => fake.ready ?? true, parts: () => fake.parts ?? [] },
    routes: { answer: fake.answer ?? (() => null), stop: () => {} },
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

  it('takes a target that is a whole URL, whose host counts and not the header', async () => {
    const { server } = await admin({
      answer: ({ path, query, headers }) => answered(200, 'text/plain', `${path} ${query} ${headers.host}`),
    })
    const answerTo = async (path: string) => {
      const asked = request({ port: server.port, path, headers: { host: 'evil.example' } }).end()
      const [response] = (await once(asked, 'response')) as [IncomingMessage]
      return await text(response)
    }
    expect(await answerTo('http://127.0.0.1/livez')).toBe('ok\n')
    expect(await answerTo('HTTP://any.example:9090/readyz?verbose')).toBe('ok\n')
    expect(await answerTo('https://localhost:9/api/find?id=1?http://x/y')).toBe('/api/find id=1?http://x/y localhost:9')
    expect(await answerTo('http://localhost?a')).toBe('/ a localhost')
    expect(await answerTo('/http://localhost/livez')).toBe('/http://localhost/livez  evil.example')
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
    const parts = [
      { part: 'queue', kind: 'journal', state: 'ok', reason: null },
      { part: 'limits', kind: 'redis', state: 'away', reason: 'connection refused' },
    ] as const
    const { url } = await admin({ parts })
    const away = 'Redis away: connection refused: this node enforces its share of each limit'
    expect(await (await fetch(`${url}/readyz?verbose`)).text()).toBe(`ok\nqueue: ok, journal\nlimits: ${away}\n`)
    const answer = await fetch(`${url}/readyz?verbose`, { headers: { accept: 'application/json' } })
    expect(answer.headers.get('content-type')).toBe('application/json')
    expect(await answer.json()).toEqual({
      ready: true,
      parts: {
        queue: { kind: 'journal', state: 'ok', reason: null, up: true, text: 'journal' },
        limits: { kind: 'redis', state: 'away', reason: 'connection refused', up: false, text: away },
      },
    })
  })

  it('names the worker process of each part where there are several', async () => {
    const { url } = await admin({
      parts: [
        { part: 'queue', kind: 'jetstream', state: 'slow', reason: null, worker: 1 },
        { part: 'service', kind: 'process', state: 'silent', reason: null, worker: 2 },
      ],
    })
    expect((await (await fetch(`${url}/readyz?verbose`)).text()).split('\n')).toEqual([
      'ok',
      'worker process 1 queue: NATS slow: answering 503 to what it cannot acknowledge in time',
      'worker process 2 service: no answer',
      '',
    ])
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

  it('answers a path that is not there with a page that leads on, where a browser asks', async () => {
    const { url } = await admin()
    const browser = { headers: { accept: 'text/html,application/xhtml+xml,*/*;q=0.8' } }
    const page = await fetch(`${url}/<b>nothing</b>`, browser)
    expect([page.status, page.headers.get('content-type')]).toEqual([404, 'text/html; charset=utf-8'])
    expect(page.headers.get('content-security-policy')).toContain("default-src 'none'")
    const text = await page.text()
    expect(text).not.toContain('nothing')
    const links = [...text.matchAll(/<a href="([^"]+)">/g)].map(([, link]) => link)
    expect(links).toEqual(['/', '/metrics', '/livez', '/readyz'])
    for (const link of links) expect((await fetch(`${url}${link}`, browser)).status).toBe(200)
  })

  it('asks the routes for every other path, with what the client sent', async () => {
    const asked: unknown[] = []
    const { url } = await admin({
      answer: ({ method, path, query, headers: { cookie } }) => {
        asked.push({ method, path, query, cookie })
        return path === '/none' ? null : answered(204, 'text/plain', '', { 'X-Own': '1' })
      },
    })
    const answer = await fetch(`${url}/some/path?a=1?b&c`, { method: 'DELETE', headers: { cookie: 'd=1' } })
    expect([answer.status, answer.headers.get('x-own'), answer.headers.get('content-length')]).toEqual([204, '1', null])
    expect((await fetch(`${url}/none`)).status).toBe(404)
    expect(asked).toEqual([
      { method: 'DELETE', path: '/some/path', query: 'a=1?b&c', cookie: 'd=1' },
      { method: 'GET', path: '/none', query: '', cookie: undefined },
    ])
  })

  it('sends text of U+0080 to U+00FF whole, in an answer as in a stream', async () => {
    const part = { part: 'apps', kind: 'file', state: 'error', reason: 'Käufe: é' } as const
    const sent = 'data: Käufe\n\n'
    const { url } = await admin({
      parts: [part],
      answer: ({ path }) =>
        path === '/stream'
          ? (sink) => {
              sink.write(sent)
              sink.end()
              return () => {}
            }
          : problem('bad_request', 'größe'),
    })
    expect(await (await fetch(`${url}/readyz?verbose`)).text()).toContain('Käufe: é')
    const json = await fetch(`${url}/readyz?verbose`, { headers: { accept: 'application/json' } })
    expect(await json.json()).toMatchObject({ parts: { apps: { reason: 'Käufe: é' } } })
    expect(await (await fetch(`${url}/x`)).json()).toEqual({ error: 'bad_request', message: 'größe' })
    const stream = await fetch(`${url}/stream`)
    expect(stream.headers.get('content-type')).toBe('text/event-stream; charset=utf-8')
    expect(Buffer.from(await stream.arrayBuffer())).toEqual(Buffer.from(sent))
  })

  it('tells a stream when its client has left, and opens none for one that left before', async () => {
    let release = (): void => {}
    const released = new Promise<void>((resolve) => {
      release = resolve
    })
    const opened: EventSink[] = []
    const left: EventSink[] = []
    const { url } = await admin({
      answer: async ({ path }) => {
        if (path === '/late') await released
        return (sink) => {
          opened.push(sink)
          sink.write(': hello\n\n')
          return () => left.push(sink)
        }
      },
    })
    const leaving = new AbortController()
    await expect(fetch(`${url}/late`, { signal: AbortSignal.timeout(100) })).rejects.toThrow('timeout')
    await fetch(`${url}/stream`, { signal: leaving.signal })
    leaving.abort()
    await vi.waitFor(() => expect(left).toEqual(opened))
    release()
    // Once a later connection is served, the late one was.
    await fetch(`${url}/livez`)
    expect(opened).toHaveLength(1)
  })

  it('closes a connection whose client does not wait for its answer, and serves the others', async () => {
    const { server, url } = await admin()
    const socket = connect(server.port, '127.0.0.1')
    let received = ''
    socket.setEncoding('utf8').on('data', (text: string) => {
      received += text
    })
    const request = 'GET /metrics HTTP/1.1\r\nHost: a\r\n\r\n'
    socket.write(request)
    await vi.waitFor(() => expect(received).toContain('a 1'))
    const closed = new Promise((resolve) => {
      socket.once('close', resolve)
    })
    socket.write(request + request)
    await closed
    expect((await fetch(`${url}/livez`)).status).toBe(200)
  })

  const withBody: AdminRoutes['answer'] = async (request) => {
    const body = await request.body(1000)
    return Buffer.isBuffer(body) ? answered(200, 'text/plain', `${body.length}`) : body
  }

  it.each([
    ['that is too large', '/body', '413 '],
    ['that nobody reads', '/livez', '405 '],
  ])('answers a body without an end %s, and closes its connection', async (_, path, status) => {
    const { server } = await admin({ answer: withBody })
    const socket = connect(server.port, '127.0.0.1')
    let received = ''
    socket.setEncoding('utf8').on('data', (text: string) => {
      received += text
    })
    const closed = new Promise((resolve) => {
      socket.on('error', () => {}).once('close', resolve)
    })
    socket.write(`POST ${path} HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n`)
    const chunk = `10000\r\n${'x'.repeat(65_536)}\r\n`
    const send = (): void => void socket.write(chunk, () => !socket.destroyed && send())
    await vi.waitFor(() => {
      socket.write(chunk)
      expect(received).toContain(status)
    })
    send()
    await closed
    // With what the kernel holds.
    expect(socket.bytesWritten).toBeLessThan(64 * 1024 * 1024)
  })

  it('keeps the connection of a client that has sent a megabyte too much, and reads its answer then', async () => {
    const { server } = await admin({ answer: withBody })
    const agent = new Agent({ keepAlive: true, maxSockets: 1 })
    const post = (path: string, bytes: number) =>
      new Promise((resolve, reject) => {
        const headers = { 'Content-Length': bytes }
        request({ host: '127.0.0.1', port: server.port, path, method: 'POST', headers, agent }, (answer) => {
          resolve([answer.statusCode, answer.socket.localPort])
          answer.resume()
        })
          .on('error', reject)
          .end('x'.repeat(bytes))
      })
    const [status, port] = (await post('/body', 1000)) as [number, number]
    expect(status).toBe(200)
    expect(await post('/body', 900_000)).toEqual([413, port])
    expect(await post('/livez', 900_000)).toEqual([405, port])
    expect(await post('/body', 10)).toEqual([200, port])
    agent.destroy()
  })

  it('reports what cannot be sent, and keeps running', async () => {
    const faults: unknown[] = []
    const { url } = await admin({
      faults,
      answer: () => answered(200, 'text/plain', '', { 'X-Broken': 'a\nb' }),
    })
    await expect(fetch(`${url}/x`)).rejects.toThrow('fetch failed')
    expect(faults).toEqual([expect.objectContaining({ code: 'ERR_INVALID_CHAR' })])
    expect((await fetch(`${url}/livez`)).status).toBe(200)
  })

  it('reports a port that is in use', async () => {
    const { server } = await admin()
    server.stop()
    started.pop()
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

  it('answers 500 where the metrics fail, logs why, and keeps running', async () => {
    const [faults, fault]: [unknown[], Error] = [[], new Error('broken gauge')]
    const { url } = await admin({ scrape: () => Promise.reject(fault), faults })
    const answer = await fetch(`${url}/metrics`)
    expect([answer.status, await answer.json()]).toEqual([500, { error: 'internal_error', message: 'broken gauge' }])
    expect(faults).toEqual([fault])
    expect((await fetch(`${url}/livez`)).status).toBe(200)
  })
})
