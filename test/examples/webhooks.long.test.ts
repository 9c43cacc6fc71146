// The webhooks' programs: what a kill -9 loses, and an alert of a real service on its way to a receiver.

import { readdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { batch, post } from '../support/client.ts'
import { appRecord, eventually, makeFolder, startService } from '../support/service.ts'
import { alert, NEW, OLD, serve, startExample } from '../support/webhooks.ts'

describe('the programs', () => {
  it('loses no alert through kills at any moment, and goes on where it was', async () => {
    const folder = await makeFolder()
    const all = Array.from({ length: 300 }, (_, index) => alert(index))
    const queries: string[] = []
    const sluice = await serve((request, response) => {
      const since = new URL(request.url ?? '', 'http://x').searchParams.get('since') ?? ''
      queries.push(`${request.headers.authorization} ${since}`)
      response.end(JSON.stringify({ alerts: all.filter(({ at }) => at >= since), more: false }))
    })
    const got: string[] = []
    const hook = await serve((request, response) => {
      got.push(String(request.headers['webhook-id']))
      request.resume().on('end', () => response.writeHead(204).end())
    })
    const endpoints = join(folder, 'webhooks.json')
    writeFileSync(endpoints, JSON.stringify({ endpoints: [{ url: hook, secrets: [NEW] }] }))
    const args = ['--sluice', sluice, '--endpoints', endpoints, '--folder', join(folder, 'state'), '--allow-local']
    const begin = () =>
      startExample('webhooks.js', [...args, '--every', '0.2', '--from', '2026-11-20T12:00:00Z'], {
        ALERTS_TOKEN: 'rk_x',
      })
    for (const count of [1, 40, 120, 121, 200]) {
      const program = begin()
      await eventually(`${count} have come`, () => got.length >= count)
      await program.end('SIGKILL')
    }
    const program = begin()
    await eventually('all have come', () => new Set(got).size === all.length)
    expect(await program.end('SIGTERM'), program.texts.stderr).toBe(0)
    // What was delivered and not yet noted comes again: at most one a kill.
    expect(got.length - all.length).toBeLessThanOrEqual(5)
    expect(new Set(queries.map((query) => query.split(' ', 2).join(' ')))).toEqual(new Set(['Bearer rk_x']))
    expect(readdirSync(join(folder, 'state')).filter((name) => name.endsWith('.json'))).toHaveLength(1)
  })

  it('sends an alert of a real service to a receiver that checks it, once, through a change of the secret', async () => {
    const folder = await makeFolder()
    const token = 'a-token-of-twenty-characters'
    const apps = [appRecord('shop', { events_per_day: 10 }), appRecord('other', { events_per_day: 10 })]
    const env = { SLUICE_CONSOLE_TOKEN: 'another-token-of-twenty', SLUICE_CONSOLE_READ_TOKEN: token }
    const service = await startService({ dataDir: folder, apps, env })
    const receiver = startExample('receiver.js', ['--port', '0'], { WEBHOOK_SECRETS: OLD })
    await eventually('the receiver listens', () => receiver.texts.stderr.includes('listening on'))
    const [url] = /http:\S+/.exec(receiver.texts.stderr) ?? []
    const endpoints = join(folder, 'webhooks.json')
    const write = (secrets: readonly string[]) =>
      writeFileSync(endpoints, JSON.stringify({ endpoints: [{ url, secrets, app: 'shop' }] }))
    write([NEW, OLD])
    const args = ['--sluice', `http://127.0.0.1:${service.adminPort}`, '--endpoints', endpoints, '--every', '0.3']
    const begin = () =>
      startExample('webhooks.js', [...args, '--folder', join(folder, 'hooks'), '--allow-local'], {
        ALERTS_TOKEN: token,
      })
    let program = begin()
    await eventually('it runs', () => program.texts.stderr.includes('sending the alerts'))
    const received = () =>
      receiver.texts.stdout
        .split('\n')
        .filter((line) => line !== '')
        .map((line) => JSON.parse(line))
    for (const key of ['ak_other', 'ak_shop']) expect((await post(service, batch(key, 5))).status).toBe(202)
    await eventually('the alert has come', () => received().length > 0, 90_000)
    await program.end('SIGKILL')
    program = begin()
    expect((await post(service, batch('ak_shop', 3))).status).toBe(202)
    await eventually('the next one has come', () => received().length > 1, 90_000)
    expect(received()).toMatchObject([
      { type: 'usage.step.raised', data: { app_id: 'shop', window: 'day', percent: 50 } },
      { type: 'usage.step.raised', data: { app_id: 'shop', window: 'day', percent: 80 } },
    ])
    // The old secret is taken away too early: nothing is believed, and nothing is given up.
    write([NEW])
    await eventually('the file was read again', () => program.texts.stderr.includes('was read again'))
    expect((await post(service, batch('ak_shop', 2))).status).toBe(202)
    await eventually('it was refused', () => receiver.texts.stderr.includes('not of our secret'), 90_000)
    await eventually('it is tried again', () => program.texts.stderr.includes('it answered 401; again in 3'))
    expect(received()).toHaveLength(2)
  })
})
