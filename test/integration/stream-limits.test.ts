// Limits that refuse events and are not the size of the stream, on a real NATS: each fails `sluice check` while it refuses, and
// those of storage are logged as they fill, as the stream's own is.

import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { batch, bodyOfSize, get, post, single } from '../support/client.ts'
import { addStream } from '../support/jetstream.ts'
import { startNats } from '../support/nats.ts'
import { metricsOf } from '../support/processes.js'
import { startRedis } from '../support/redis.ts'
import { appRecord, eventually, makeFolder, runCommand, startService } from '../support/service.ts'

const MIB = 1024 ** 2
/** Longer than the interval between two measurements of the stream. */
const MEASURED_MS = 15_000
const ACCOUNT = 'accounts { A { jetstream { max_file: 4MB }, users: [{ user: a, password: a }] } }\nno_auth_user: a'

/** A service over a NATS with these settings, and over a stream with these. */
async function start(settings: string, stream: object = {}) {
  const folder = await makeFolder()
  const config = join(folder, 'nats.conf')
  writeFileSync(config, settings)
  const [nats, redis] = await Promise.all([startNats(['--config', config]), startRedis()])
  await addStream(nats.url, { discard: 'new', duplicate_window: 600e9, ...stream })
  const env = { REDIS_URL: redis.url, NATS_URL: nats.url, SLUICE_APPS_FILE: `${folder}/apps.json` }
  const service = await startService({ dataDir: folder, apps: [appRecord('one')], env })
  await eventually('it is ready', async () => (await get(service.adminPort, '/readyz')).status === 200)
  return {
    service,
    check: () => runCommand(['check'], { ...env, PORT: '0', SLUICE_ADMIN_PORT: '0' }, folder),
    /** Sends bodies of some size until one is refused. */
    fill: async (): Promise<void> => {
      const statuses: number[] = []
      do statuses.push((await post(service, bodyOfSize('ak_one', 200_000))).status)
      while (statuses.at(-1) === 202 && statuses.length < 100)
      expect([statuses[0], statuses.at(-1)]).toEqual([202, 503])
    },
  }
}

describe('a limit of storage', () => {
  async function expectRefusalTold({ check, fill }: Awaited<ReturnType<typeof start>>, refusal: string): Promise<void> {
    expect((await check()).stdout).toMatch(/^ok +stream /m)
    await fill()
    const { stdout, code } = await check()
    expect(stdout).toMatch(new RegExp(`^FAIL +stream .*; batches are answered 503: ${refusal}`, 'm'))
    expect(code).toBe(1)
  }

  it('of the server that is full fails sluice check, and one with room does not', async () =>
    expectRefusalTold(await start('jetstream { max_file: 4MB }'), 'insufficient resources$'))

  it('of the account does so too, is logged as it fills, and bounds what the metrics say of the room', async () => {
    const started = await start(ACCOUNT)
    const { service } = started
    // The buckets are in the account too.
    const isAtMost4Mib = async (): Promise<boolean> => {
      const shown = (await metricsOf(service)).get('sluice_stream_max_bytes') ?? 0
      return shown > 3.9 * MIB && shown <= 4 * MIB
    }
    await eventually('it is measured', isAtMost4Mib)
    const told = 'the NATS account has no room for a batch of the largest size: raise its storage'
    await expectRefusalTold(started, told)
    await eventually('the log says that it is full', () => service.output().includes('the NATS account is full ('))
    await eventually(
      'the metrics show it',
      async () => ((await metricsOf(service)).get('sluice_stream_bytes') ?? 0) > 3 * MIB,
      MEASURED_MS,
    )
    expect(await isAtMost4Mib()).toBe(true)
  })
})

describe('a limit of the stream', () => {
  it('on the size of a message fails sluice check where the largest batch is refused', async () => {
    const { service, check } = await start('', { max_msg_size: 60_000 })
    expect((await post(service, single('ak_one'))).status).toBe(202)
    expect((await post(service, bodyOfSize('ak_one', 200_000))).status).toBe(503)
    const { stdout, code } = await check()
    expect(stdout).toMatch(
      /^FAIL +stream .*no room for a batch of the largest size: raise max_msg_size to 614400 bytes/m,
    )
    expect(code).toBe(1)
  })

  it('on the messages of a subject fails sluice check once it refuses, and is a warning before', async () => {
    const { service, check } = await start('', { max_msgs_per_subject: 2, discard_new_per_subject: true })
    expect((await check()).stdout).toMatch(/^warn +stream /m)
    for (const status of [202, 202, 503]) expect((await post(service, batch('ak_one', 1))).status).toBe(status)
    const { stdout, code } = await check()
    expect(stdout).toMatch(/^FAIL +stream .*its subject sluice\.events\.\d+ is full: set max_msgs_per_subject to -1/m)
    expect(code).toBe(1)
  })
})
