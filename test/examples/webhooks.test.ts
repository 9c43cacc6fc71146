// Webhooks: what is signed and believed, where nothing is ever sent, and when it is tried again.

import { execFileSync } from 'node:child_process'
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { isPublic } from '../../examples/shared/webhooks/address.js'
import { deliver } from '../../examples/shared/webhooks/deliver.js'
import { follow } from '../../examples/shared/webhooks/follow.js'
import { openOutbox } from '../../examples/shared/webhooks/outbox.js'
import { parseSettings } from '../../examples/shared/webhooks/settings.js'
import { faultOf, signedHeaders } from '../../examples/shared/webhooks/signature.js'
import { makeFolder } from '../support/service.ts'
import { alert, NEW, NOW_MS, OLD, OTHER, serve } from '../support/webhooks.ts'

const DAY_MS = 86_400_000

describe('a signature', () => {
  const body = '{"a":"ü"}'
  const seconds = NOW_MS / 1000
  const headers = signedHeaders({ id: 'one', seconds, body, secrets: [NEW, OLD] })

  it('is what openssl makes of id, time and body with the bytes of each secret', () => {
    const made = [NEW, OLD].map((secret) => {
      const key = Buffer.from(secret.slice(6), 'base64').toString('hex')
      const args = ['dgst', '-sha256', '-mac', 'HMAC', '-macopt', `hexkey:${key}`, '-binary']
      return `v1,${execFileSync('openssl', args, { input: `one.${seconds}.${body}` }).toString('base64')}`
    })
    expect(headers).toEqual({
      'webhook-id': 'one',
      'webhook-timestamp': String(seconds),
      'webhook-signature': made.join(' '),
    })
  })

  it('is believed by who knows the old or the new secret', () => {
    for (const secrets of [[OLD], [NEW], [OTHER, OLD]])
      expect(faultOf(headers, Buffer.from(body), secrets, seconds + 299)).toBe(null)
  })

  it.each([
    ['another secret', headers, body, OTHER, 0],
    ['another body', headers, '{"a":"u"}', NEW, 0],
    ['another id', { ...headers, 'webhook-id': 'two' }, body, NEW, 0],
    ['another time', { ...headers, 'webhook-timestamp': String(seconds + 1) }, body, NEW, 0],
    ['a time that is long ago', headers, body, NEW, 301],
    ['a time to come', headers, body, NEW, -301],
    ['no signature', { ...headers, 'webhook-signature': undefined }, body, NEW, 0],
    ['an empty one', { ...headers, 'webhook-signature': 'v1,' }, body, NEW, 0],
    [
      'one of another version',
      { ...headers, 'webhook-signature': headers['webhook-signature'].replaceAll('v1', 'v2') },
      body,
      NEW,
      0,
    ],
  ])('is not believed with %s', (_, given, text, secret, lateSeconds) => {
    expect(faultOf(given, Buffer.from(text), [secret], seconds + lateSeconds)).not.toBe(null)
  })
})

describe('an attempt', () => {
  const attempt = {
    secrets: [NEW],
    id: 'one',
    body: '{}',
    number: 0,
    nowMs: NOW_MS,
    allowsLocal: true,
    signal: new AbortController().signal,
  }

  it.each([
    '127.0.0.1',
    '2130706433',
    '0x7f.1',
    '0177.0.0.1',
    '127.1',
    '0.0.0.0',
    '10.1.2.3',
    '100.64.0.1',
    '169.254.169.254',
    '172.31.0.1',
    '192.168.0.1',
    '224.0.0.1',
    '255.255.255.255',
    '[::1]',
    '[::]',
    '[::ffff:127.0.0.1]',
    '[::ffff:7f00:1]',
    '[::127.0.0.1]',
    '[64:ff9b::7f00:1]',
    '[fe80::1]',
    '[fc00::1]',
    '[2002:7f00:1::]',
    '[2001:0:7f00:1::]',
    '[ff02::1]',
  ])('goes to no address that is ours: %s', async (host) => {
    const asked: string[] = []
    const lookup = async (name: string) => (asked.push(name), [])
    const outcome = await deliver({ ...attempt, url: `https://${host}/`, allowsLocal: false, lookup })
    expect(outcome).toMatchObject({ kind: 'failed', why: 'its address is not one of the public internet' })
    expect(asked).toEqual([])
  })

  it('goes to addresses of the public internet', () => {
    for (const address of ['1.1.1.1', '172.32.0.1', '2606:4700:4700::1111'])
      expect(isPublic(address), address).toBe(true)
  })

  it('goes nowhere where one address of a name is ours', async () => {
    let requests = 0
    const url = await serve((_, response) => (requests++, response.end()))
    const there = url.replace('127.0.0.1', 'hooks.example')
    for (const addresses of [['127.0.0.1'], ['1.1.1.1', '127.0.0.1'], ['::ffff:127.0.0.1']]) {
      const outcome = await deliver({ ...attempt, url: there, allowsLocal: false, lookup: async () => addresses })
      expect(outcome).toMatchObject({ kind: 'failed', why: 'its address is not one of the public internet' })
    }
    expect(requests).toBe(0)
  })

  it('connects to the address that was checked, and asks for the name once', async () => {
    const hosts: unknown[] = []
    const url = await serve((request, response) => (hosts.push(request.headers.host), response.end()))
    const { port } = new URL(url)
    // The second answer would lead elsewhere: 127.0.0.2 refuses.
    const answers = [['127.0.0.1'], ['127.0.0.2']]
    const lookup = async () => answers.shift() ?? []
    expect(await deliver({ ...attempt, url: `http://hooks.example:${port}/`, lookup })).toEqual({ kind: 'taken' })
    expect(hosts).toEqual([`hooks.example:${port}`])
    expect(answers).toHaveLength(1)
  })

  it('follows no redirect', async () => {
    const paths: unknown[] = []
    const url = await serve((request, response) => {
      paths.push(request.url)
      response.writeHead(307, { Location: '/elsewhere' }).end()
    })
    expect(await deliver({ ...attempt, url })).toMatchObject({ kind: 'failed', why: 'it answered 307' })
    expect(paths).toEqual(['/'])
  })

  it('ends where no answer comes, and reads no answer to its end', async () => {
    const silent = await serve(() => {})
    const late = await deliver({ ...attempt, url: silent, timeoutMs: 50 })
    expect(late).toMatchObject({ kind: 'failed', why: 'it did not answer in time' })
    const never = {
      ...attempt,
      url: 'http://hooks.example/',
      timeoutMs: 50,
      lookup: () => new Promise<never>(() => {}),
    }
    expect(await deliver(never)).toMatchObject({ kind: 'failed', why: 'it did not answer in time' })
    const closed = new Promise<void>((done) => {
      void serve((_, response) => {
        response.on('close', done)
        response.writeHead(200).write('x')
      }).then((url) => deliver({ ...attempt, url }).then((outcome) => expect(outcome).toEqual({ kind: 'taken' })))
    })
    await closed
  })

  it('ends where answers that only announce another one never end', async () => {
    let heads = 0
    const url = await serve((request, response) => {
      const announce = () => {
        if (request.socket.destroyed) return
        heads += 1
        response.writeProcessing()
        setImmediate(announce)
      }
      announce()
    })
    const outcome = await deliver({ ...attempt, url, timeoutMs: 60_000 })
    expect(outcome).toMatchObject({ kind: 'failed', why: 'it did not come to an answer' })
    expect(heads).toBeGreaterThan(10)
  })

  it('says how long to wait, and that an address is gone', async () => {
    let status = 503
    const url = await serve((_, response) => response.writeHead(status, { 'Retry-After': '90' }).end())
    expect(await deliver({ ...attempt, url })).toEqual({ kind: 'failed', why: 'it answered 503', retryAfterMs: 90_000 })
    status = 410
    expect(await deliver({ ...attempt, url })).toEqual({ kind: 'gone' })
  })
})

describe('one endpoint', () => {
  async function rig(alerts: () => ReturnType<typeof alert>[], folder?: string) {
    const file = join(folder ?? (await makeFolder()), 'endpoint.json')
    const stopping = new AbortController()
    const sent: { id: string; body: string; atMs: number }[] = []
    const lines: string[] = []
    const clock = { nowMs: NOW_MS }
    return {
      clock,
      file,
      sent,
      lines,
      run: async (outcomeOf: (id: string) => Awaited<ReturnType<typeof deliver>>, untilMs: number, random = () => 0) =>
        await follow({
          name: 'it',
          endpoint: () => ({ url: 'https://hooks.example/', secrets: [NEW], app: 'shop' }),
          outbox: await openOutbox({ file, url: 'https://hooks.example/', fromMs: NOW_MS, random }),
          readAlerts: async (since) => {
            const found = alerts().filter(({ at }) => !(Date.parse(at) < Date.parse(since)))
            return { alerts: found.slice(0, 1000), more: found.length > 1000 }
          },
          deliver: async ({ id, body }) => {
            sent.push({ id, body, atMs: clock.nowMs })
            return outcomeOf(id)
          },
          everyMs: 3_600_000,
          clock: {
            nowMs: () => clock.nowMs,
            wait: async (ms) => {
              clock.nowMs += Math.max(ms, 1)
              if (clock.nowMs > untilMs) stopping.abort()
            },
          },
          signal: stopping.signal,
          log: (line) => lines.push(line),
        }),
    }
  }
  const failed = { kind: 'failed', why: 'it answered 500', retryAfterMs: 0 } as const

  it.each([0, 1])(
    'is tried again after 30 s, twice as long each time, up to 24 h, and for 35 days (chance: %d)',
    async (chance) => {
      const { run, sent, lines } = await rig(() => [alert(0)])
      await run(
        () => failed,
        NOW_MS + 40 * DAY_MS,
        () => chance,
      )
      const waits = sent.slice(1).map(({ atMs }, index) => (atMs - sent[index].atMs) / 1000)
      const factor = 1 + chance / 10
      const wanted = waits.map((_, index) => Math.min(30 * 2 ** index * factor, 86_400))
      expect(waits.map(Math.round)).toEqual(wanted.map(Math.round))
      expect(waits.at(-1)).toBe(86_400)
      expect(new Set(sent.map(({ id, body }) => `${id} ${body}`)).size).toBe(1)
      const lastsMs = sent.at(-1)!.atMs - NOW_MS
      expect(lastsMs).toBeGreaterThan(34 * DAY_MS)
      expect(lastsMs).toBeLessThan(37 * DAY_MS)
      expect(lines.at(-1)).toContain('given up')
    },
  )

  it('waits for as long as it was told to', async () => {
    const { run, sent } = await rig(() => [alert(0)])
    await run(() => ({ ...failed, retryAfterMs: 4000_000 }), NOW_MS + 4500_000)
    expect(sent.map(({ atMs }) => atMs - NOW_MS)).toEqual([0, 4000_000])
  })

  it('gets no more after a 410, even where the program starts again', async () => {
    const first = await rig(() => [alert(0), alert(1)])
    await first.run(() => ({ kind: 'gone' }), NOW_MS + DAY_MS)
    expect(first.sent).toHaveLength(1)
    const again = await rig(() => [alert(0), alert(1), alert(2)], join(first.file, '..'))
    await again.run(() => ({ kind: 'taken' }), NOW_MS + DAY_MS)
    expect(again.sent).toEqual([])
  })

  it('gets each of thousands once, those stored late too, and none of another app or from before', async () => {
    const all = [
      alert(-1),
      alert(5, { app_id: 'other' }),
      ...Array.from({ length: 1100 }, (_, index) => alert(index + 10)),
    ]
    const late = { ...alert(9999), at: new Date(NOW_MS + 1).toISOString() }
    let looks = 0
    const { run, sent } = await rig(() =>
      (++looks > 100 ? [late, ...all] : all).toSorted((a, b) => (a.at < b.at ? -1 : 1)),
    )
    await run(() => ({ kind: 'taken' }), NOW_MS + 5 * DAY_MS)
    expect(sent.map(({ id }) => id)).toEqual([...all.slice(2), late].map(({ id }) => id))
  })

  it('keeps at most a hundred waiting, and gets the others when it takes again', async () => {
    const all = Array.from({ length: 250 }, (_, index) => alert(index))
    const { run, sent, file } = await rig(() => all)
    let fails = true
    let most = 0
    await run(
      () => {
        most = Math.max(most, JSON.parse(readFileSync(file, 'utf8')).pending.length)
        if (sent.length > 300) fails = false
        return fails ? failed : { kind: 'taken' }
      },
      NOW_MS + 3 * DAY_MS,
    )
    expect(most).toBe(100)
    expect(new Set(sent.map(({ id }) => id)).size).toBe(250)
    expect(JSON.parse(readFileSync(file, 'utf8')).pending).toEqual([])
  })

  const idsOf = (sent: readonly { id: string }[]) => sent.map(({ id }) => id)
  const HOUR_MS = 3_600_000

  it.each(['2999-01-01T00:00:00.000Z', '+275760-09-13T00:00:00.000Z', 'zzz', ''])(
    'gets all others and each once, also after a start, where one alert has the time "%s"',
    async (at) => {
      const strange = alert(1, { at })
      const all = [strange, ...Array.from({ length: 20 }, (_, index) => alert((index + 2) * HOUR_MS))]
      const folder = join((await rig(() => [])).file, '..')
      const sent: { id: string }[] = []
      for (const hours of [10, 30]) {
        // What is decided later is not there yet.
        const part: Awaited<ReturnType<typeof rig>> = await rig(
          () => all.filter((one) => one === strange || Date.parse(one.at) <= part.clock.nowMs),
          folder,
        )
        if (hours === 30) part.clock.nowMs += 10 * HOUR_MS
        await part.run(() => ({ kind: 'taken' }), NOW_MS + hours * HOUR_MS)
        sent.push(...part.sent)
      }
      expect(idsOf(sent)).toEqual(idsOf(all))
    },
  )

  it('loses no alert, and gets none twice, where a clock was ahead by a year and was set back while the program was off', async () => {
    const early = alert(HOUR_MS)
    const ahead = alert(365 * DAY_MS)
    const late = alert(2 * HOUR_MS)
    const first = await rig(() => [early, ahead])
    first.clock.nowMs += 365 * DAY_MS
    await first.run(() => ({ kind: 'taken' }), NOW_MS + 365 * DAY_MS + 2 * HOUR_MS)
    expect(idsOf(first.sent)).toEqual(idsOf([early, ahead]))
    const again = await rig(() => [early, late, ahead], join(first.file, '..'))
    again.clock.nowMs += DAY_MS
    await again.run(() => ({ kind: 'taken' }), NOW_MS + 2 * DAY_MS)
    expect(idsOf(again.sent)).toEqual([late.id])
  })

  it('is looked for, and tried again, when a clock that was ahead is set back', async () => {
    const folder = join((await rig(() => [])).file, '..')
    const first = await rig(() => [alert(0)], folder)
    first.clock.nowMs += 365 * DAY_MS
    await first.run(() => failed, first.clock.nowMs + 1000)
    const again = await rig(() => [alert(0), alert(1)], folder)
    await again.run(() => ({ kind: 'taken' }), NOW_MS + HOUR_MS)
    expect(idsOf(again.sent).toSorted()).toEqual(idsOf([alert(0), alert(1)]))
  })

  it('is looked for again while the program runs and its clock is set back', async () => {
    let looks = 0
    const { run, sent, clock } = await rig(() => {
      if (++looks === 1) clock.nowMs = NOW_MS
      return looks === 1 ? [] : [alert(0)]
    })
    clock.nowMs += 365 * DAY_MS
    await run(() => ({ kind: 'taken' }), NOW_MS + DAY_MS)
    expect(idsOf(sent)).toEqual([alert(0).id])
  })

  it('is given up after 35 days where its time is far ahead, or none', async () => {
    for (const at of ['2999-01-01T00:00:00.000Z', 'zzz']) {
      const { run, lines } = await rig(() => [alert(1, { at })])
      await run(() => failed, NOW_MS + 40 * DAY_MS)
      expect(lines.at(-1), at).toContain('given up')
    }
  })

  it('is named in the log without signs that change the terminal', async () => {
    const { run, lines } = await rig(() => [alert(0, { id: 'a\u001b[2J\n\u009bb\u2028\u202e' })])
    await run(() => failed, NOW_MS + 1000)
    expect(lines[0]).toContain('alert a\\u{1b}[2J\\u{a}\\u{9b}b\\u{2028}\\u{202e}: ')
  })

  it('is not begun anew where its file is damaged', async () => {
    const file = join(await makeFolder(), 'endpoint.json')
    for (const text of ['', '{"v":1', '{"v":2}', '{"v":1,"from":"x","position":"y","known":[],"pending":[]}']) {
      writeFileSync(file, text)
      await expect(openOutbox({ file, url: 'https://hooks.example/', fromMs: NOW_MS })).rejects.toThrow('is damaged')
    }
  })
})

it.each([
  ['{', 'it is not JSON'],
  ['{}', 'endpoints: a list'],
  [[{ url: 'http://hooks.example/', secrets: [NEW] }], 'endpoints[0].url: must be https'],
  [[{ url: 'https://ann:pw@hooks.example/', secrets: [NEW] }], 'endpoints[0].url: must have no password'],
  [[{ url: 'https://hooks.example/', secrets: [] }], 'endpoints[0].secrets: one, or two'],
  [[{ url: 'https://hooks.example/', secrets: ['whsec_c2hvcnQ='] }], 'endpoints[0].secrets: each is'],
  [[{ url: 'https://hooks.example/', secrets: [NEW], app: 5 }], 'endpoints[0].app: must be'],
  [[1, 2].map(() => ({ url: 'https://hooks.example/', secrets: [NEW] })), 'endpoints[1].url: it is there twice'],
])('a bad file of endpoints is refused by name: %j', (given, message) => {
  const text = typeof given === 'string' ? given : JSON.stringify({ endpoints: given })
  expect(() => parseSettings(text, false)).toThrow(message)
})
