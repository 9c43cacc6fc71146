// `sluice tail` over a real NATS: what it prints, that the stream does not notice it, and how it takes outages.

import { type ChildProcess, execFile, execFileSync, spawn } from 'node:child_process'
import { randomUUID } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { resolve } from 'node:path'
import { jetstream, jetstreamManager } from '@nats-io/jetstream'
import { beforeAll, beforeEach, describe, expect, onTestFinished, test } from 'vitest'
import { partitionOf } from '../../src/contract/partition.ts'
import { readQueue } from '../../src/inspect/find/queue-lines.ts'
import { PROBE_SUBJECT, subjectOf } from '../../src/queue/stream/stream.ts'
import { addStream, emptyNats, withConnection } from '../support/jetstream.ts'
import { type NatsServer, startNats } from '../support/nats.ts'
import { type CommandResult, eventually, runCommand, type Started, startCommand } from '../support/service.ts'

const MAIN = resolve('dist/main.js')
const PARTITIONS = 16
const MIB = 1024 * 1024
/** The settings want it beside NATS_URL; nobody asks it anything. */
const REDIS_URL = 'redis://127.0.0.1:1'

let nats: NatsServer
beforeAll(async () => {
  nats = await startNats()
})
beforeEach(() => emptyNats(nats.url))

function tail(args: readonly string[], env: Record<string, string> = {}): Promise<CommandResult> {
  return runCommand(['tail', ...args], { REDIS_URL, NATS_URL: nats.url, ...env })
}

function following(...args: string[]): Started {
  const command = startCommand(['tail', ...args], { REDIS_URL, NATS_URL: nats.url })
  onTestFinished(async () => {
    command.kill()
    await command.exited
  })
  return command
}

const HEAD = '"received_at":"2026-11-20T12:00:00.000Z"'

function record(appId: string, events: string): string {
  return `{"v":1,"batch_id":"${randomUUID()}","app_id":"${appId}",${HEAD},"events":${events}}\n`
}

const subjectFor = (appId: string, partitions = PARTITIONS): string => subjectOf(partitionOf(appId, partitions))

interface Message {
  readonly subject: string
  readonly text: string
}

const messageOf = (appId: string, events = '[{"a":1}]'): Message => ({
  subject: subjectFor(appId),
  text: record(appId, events),
})

async function store(messages: readonly Message[]): Promise<void> {
  await withConnection(nats.url, async (connection) => {
    const js = jetstream(connection)
    for (const { subject, text } of messages) await js.publish(subject, text)
  })
}

interface State {
  readonly consumers: number
  readonly lastSequence: number
}

function stateOfStream(): Promise<State> {
  return withConnection(nats.url, async (connection) => {
    const manager = await jetstreamManager(connection)
    const { state } = await manager.streams.info('SLUICE_EVENTS')
    return { consumers: state.consumer_count, lastSequence: state.last_seq }
  })
}

/** Sends until it is printed: what came before the command read the stream's end is not shown. */
async function untilPrinted(command: Started, message: () => Message): Promise<void> {
  await eventually('an event is printed', async () => {
    await store([message()])
    return command.stdout() !== ''
  })
}

describe('what is printed', () => {
  test('is every byte of an event as it was sent, gathered messages cut into their records', async () => {
    await addStream(nats.url)
    const event = '{"n":12345678901234567890,"x":1e999, "s":"\\ud83d é"}'
    const texts = [record('demo', `[${event},{"b":1.10}]`), record('demo', '[{"c":2}]'), record('demo', '[]')]
    await store([{ subject: subjectFor('demo'), text: texts.join('') }, messageOf('demo', '[{"d":3}]')])
    const { code, stdout } = await tail(['--from-start', '--no-follow'])
    expect(code).toBe(0)
    const lines = stdout.trimEnd().split('\n')
    expect(lines.map((line) => line.slice(line.indexOf(',"event":')))).toEqual([
      `,"event":${event}}`,
      ',"event":{"b":1.10}}',
      ',"event":{"c":2}}',
      ',"event":{"d":3}}',
    ])
    expect(lines[0]).toMatch(
      /^\{"batch_id":"[-0-9a-f]{36}","app_id":"demo","received_at":"2026-[^"]+","sdk_version":null/,
    )
  })

  test('with --records is what is stored, byte by byte', async () => {
    await addStream(nats.url)
    const messages = Array.from({ length: 70 }, (_, number) => messageOf(`app${number % 5}`, `[{"n":${number}.0}]`))
    await store(messages)
    const { stdout } = await tail(['--from-start', '--no-follow', '--records'])
    expect(stdout).toBe(messages.map(({ text }) => text).join(''))
  })

  test('says so where a line is no record, and goes on', async () => {
    await addStream(nats.url)
    const subject = subjectFor('demo')
    await store([
      { subject, text: `by hand\n${record('demo', '[{"a":1}]')}` },
      { subject, text: '' },
      messageOf('demo'),
    ])
    const { code, stdout, output } = await tail(['--from-start', '--no-follow'])
    expect(code).toBe(0)
    expect(stdout.trimEnd().split('\n')).toHaveLength(2)
    expect(output.match(/skipped a line/g)).toHaveLength(1)
  })
})

describe('--app', () => {
  test('shows one app alone, also out of messages that hold records of others', async () => {
    await addStream(nats.url)
    const mixed = [record('demo', '[{"mine":1}]'), record('other', '[{"theirs":1}]'), record('demo', '[{"mine":2}]')]
    await store([{ subject: subjectFor('demo'), text: mixed.join('') }])
    const { stdout } = await tail(['--from-start', '--no-follow', '--app', 'demo'])
    expect(stdout).toMatch(/"mine":1[^]*"mine":2/)
    expect(stdout).not.toContain('theirs')
  })

  test('reads the partition of the app and no other', async () => {
    await addStream(nats.url)
    const elsewhere = subjectOf((partitionOf('demo', PARTITIONS) + 1) % PARTITIONS)
    await store([messageOf('demo', '[{"mine":1}]'), { subject: elsewhere, text: 'not a record\n' }])
    // A message that decided what was in doubt shows no other number of partitions.
    await store([{ subject: PROBE_SUBJECT, text: '' }])
    const { stdout, output } = await tail(['--from-start', '--no-follow', '--app', 'demo'])
    expect(stdout).toContain('"mine":1')
    // It would have told of the line, had it read that message.
    expect(output).not.toContain('skipped')
  })

  test.each([8, 12, 64])(
    'finds its events where the service has %i partitions and the settings say 16',
    async (count) => {
      await addStream(nats.url)
      // An app that the settings' partition does not hold, in a stream that has others' messages in that partition.
      const isAstray = (app: string): boolean => partitionOf(app, PARTITIONS) !== partitionOf(app, count)
      const astray = Array.from({ length: 100 }, (_, number) => `app${number}`).find(isAstray) ?? ''
      await store([{ subject: subjectFor(astray, count), text: record(astray, '[{"a":1}]') }])
      await store([{ subject: subjectFor(astray), text: record('other', '[{"a":1}]') }])
      const { stdout } = await tail(['--from-start', '--no-follow', '--app', astray])
      expect(stdout).toContain(`"app_id":"${astray}"`)
    },
  )

  test('follows an app that has not sent anything yet', async () => {
    await addStream(nats.url)
    await store([messageOf('other')])
    const command = following('--app', 'late')
    await untilPrinted(command, () => messageOf('late'))
    expect(command.stdout()).toContain('"app_id":"late"')
  })
})

describe('following', () => {
  test('shows what comes after its start, leaves no consumer, and Ctrl-C ends it with 0', async () => {
    await addStream(nats.url)
    await store([messageOf('demo', '[{"early":1}]')])
    const command = following()
    await untilPrinted(command, () => messageOf('demo', '[{"late":1}]'))
    await store(Array.from({ length: 100 }, () => messageOf('demo', '[{"later":1}]')))
    await eventually('all are shown', () => command.stdout().split('"later"').length === 101)
    expect(command.stdout()).not.toContain('early')
    process.kill(command.pid, 'SIGINT')
    expect(await command.exited).toMatchObject({ code: 0, signal: null })
    expect(await stateOfStream()).toMatchObject({ consumers: 0 })
  })

  test('goes on after NATS was away, says so, and misses and repeats nothing', async () => {
    await addStream(nats.url)
    const command = following()
    await untilPrinted(command, () => messageOf('demo', '[{"first":1}]'))
    await nats.kill()
    await eventually('it says so', () => command.output().includes('; trying again until it can'))
    await nats.restart()
    await store(Array.from({ length: 20 }, (_, number) => messageOf('demo', `[{"after":${number}}]`)))
    await eventually('the last is shown', () => command.stdout().includes('"after":19}'))
    expect(command.stdout().split('"after"')).toHaveLength(21)
    expect(command.output()).toContain('sluice tail: reconnected, continuing at message ')
  })

  test('waits for a stream that is not there yet, and shows it from its first message', async () => {
    const command = following()
    await eventually('it says so', () => command.output().includes('there is no stream SLUICE_EVENTS yet'))
    await addStream(nats.url)
    await store([messageOf('demo', '[{"n":1}]'), messageOf('demo', '[{"n":2}]')])
    await eventually('both are shown', () => command.stdout().includes('"n":2'))
    expect(command.stdout()).toMatch(/"n":1[^]*"n":2/)
  })

  test('misses nothing of a stream that is made between its look and its reading', async () => {
    const { subject, text } = messageOf('demo', '[{"n":1}]')
    const program = `import { jetstream, jetstreamManager } from '@nats-io/jetstream'
      import { connect } from '@nats-io/transport-node'
      const [servers, subject, text] = process.argv.slice(1)
      const connection = await connect({ servers })
      const manager = await jetstreamManager(connection)
      await manager.streams.add({ name: 'SLUICE_EVENTS', subjects: ['sluice.events.>'] })
      await jetstream(connection).publish(subject, text)
      await connection.close()`
    const over = new AbortController()
    const access = { url: nats.url, urlFile: null, credsFile: null, caFile: null, certFile: null, keyFile: null }
    const place = { dataDirectory: '', nats: access, partitions: PARTITIONS, spool: null }
    const options = { fromStart: false, follow: true, appId: undefined, signal: over.signal }
    // It reads on only once this has ended.
    const onNotice = (): void =>
      void execFileSync(process.execPath, ['--input-type=module', '-e', program, nats.url, subject, text])
    const lines = readQueue(place, { ...options, onNotice })
    const endsAt = setTimeout(() => over.abort(), 5000)
    const first = await lines.next()
    clearTimeout(endsAt)
    over.abort()
    expect(String(first.value)).toBe(text.trimEnd())
  })

  test('is left by Ctrl-C also while NATS is frozen', async () => {
    await addStream(nats.url)
    const command = following()
    await untilPrinted(command, () => messageOf('demo'))
    nats.freeze()
    try {
      process.kill(command.pid, 'SIGINT')
      expect(await command.exited).toMatchObject({ code: 0, signal: null })
    } finally {
      nats.resume()
    }
  })
})

describe('--no-follow', () => {
  test('ends at the last message that was there, however many come', async () => {
    await addStream(nats.url)
    await store(Array.from({ length: 50 }, () => messageOf('demo')))
    const over = new AbortController()
    const writing = (async () => {
      while (!over.signal.aborted) await store(Array.from({ length: 20 }, () => messageOf('demo')))
    })()
    const { code, stdout } = await tail(['--from-start', '--no-follow'])
    over.abort()
    await writing
    expect(code).toBe(0)
    const shown = stdout.trimEnd().split('\n').length
    expect(shown).toBeGreaterThanOrEqual(50)
    expect(shown).toBeLessThan((await stateOfStream()).lastSequence)
  })

  test('without --from-start shows nothing of what is there', async () => {
    await addStream(nats.url)
    await store([messageOf('demo')])
    expect(await tail(['--no-follow'])).toMatchObject({ code: 0, output: '' })
  })

  test('ends where there is no stream, and says so', async () => {
    const { code, stdout, output } = await tail(['--from-start', '--no-follow'])
    expect(code).toBe(0)
    expect(stdout).toBe('')
    expect(output).toContain('there is no stream SLUICE_EVENTS yet')
  })
})

test('it ends quietly with 0 when its reader has seen enough', async () => {
  await addStream(nats.url)
  const many = Array.from({ length: 300 }, () => record('demo', `[{"p":"${'x'.repeat(200)}"}]`)).join('')
  await store(Array.from({ length: 20 }, () => ({ subject: subjectFor('demo'), text: many })))
  const script = `"${process.execPath}" "${MAIN}" tail --from-start | head -n 1 | wc -l; echo "\${PIPESTATUS[0]}"`
  const env = { PATH: process.env['PATH'] ?? '', REDIS_URL, NATS_URL: nats.url }
  const output = await new Promise<string>((done, fail) => {
    execFile('bash', ['--norc', '-c', script], { env }, (error, stdout) => (error ? fail(error) : done(stdout)))
  })
  expect(output).toBe('1\n0\n')
})

/** A process that took no time of the processor for so long waits for its reader. */
const IDLE_MS = 500

test('a stream of any length takes bounded memory, also where nobody reads what is printed', async () => {
  await addStream(nats.url)
  const filler = `[{"p":"${'x'.repeat(MIB / 2)}"}]`
  await store(Array.from({ length: 600 }, () => messageOf('demo', filler)))
  const child = spawn(process.execPath, [MAIN, 'tail', '--from-start', '--no-follow'], {
    env: { PATH: process.env['PATH'] ?? '', REDIS_URL, NATS_URL: nats.url },
    stdio: ['ignore', 'pipe', 'ignore'],
  })
  const exited = new Promise<number | null>((done) => {
    child.once('exit', (code) => done(code))
  })
  try {
    await eventually('it stands still', async () => {
      const before = cpuTicks(child)
      await new Promise((done) => setTimeout(done, IDLE_MS))
      return before > 0 && cpuTicks(child) === before
    })
    expect(peakBytes(child)).toBeLessThan(200 * MIB)
    let bytes = 0
    let peak = 0
    child.stdout.on('data', (piece: Buffer) => {
      bytes += piece.length
      peak = Math.max(peak, peakBytes(child))
    })
    expect(await exited).toBe(0)
    expect(bytes).toBeGreaterThan(300 * MIB)
    expect(peak).toBeLessThan(200 * MIB)
  } finally {
    child.kill('SIGKILL')
  }
})

/** 0 once it is gone. */
function peakBytes({ pid }: ChildProcess): number {
  const peak = /^VmHWM:\s+(\d+) kB$/m.exec(procFile(pid, 'status'))
  return peak === null ? 0 : Number(peak[1]) * 1024
}

function cpuTicks({ pid }: ChildProcess): number {
  const fields = procFile(pid, 'stat').split(') ').at(-1)?.split(' ') ?? []
  return Number(fields[11] ?? 0) + Number(fields[12] ?? 0)
}

function procFile(pid: number | undefined, name: string): string {
  try {
    return readFileSync(`/proc/${pid}/${name}`, 'utf8')
  } catch {
    return ''
  }
}
