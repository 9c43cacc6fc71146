// The loop of the examples over lines that are given, and the store that takes each batch and each event once.

import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { consume } from '../../examples/shared/consume.js'
import { openDeadLetters } from '../../examples/shared/dead-letters.js'
import { openStore } from '../../examples/shared/store.js'
import type { Chunk, Position, Source } from '../../examples/shared/stream.js'
import { eventText, recordText } from '../support/examples.ts'
import { makeFolder } from '../support/service.ts'

type Sink = Pick<Awaited<ReturnType<typeof openStore>>, 'position' | 'write'>

let folder: string
let store: Awaited<ReturnType<typeof openStore>>
let acked: bigint[]

beforeEach(async () => {
  folder = await makeFolder()
  store = await openStore(folder)
  acked = []
})
afterEach(() => store.close())

/** A message a chunk; its lines are split by newlines. `start`: the first one's sequence. */
function sourceOf(messages: readonly string[], start = 1n, name = 'stream'): Source {
  return {
    read: async function* () {
      let sequence = start
      for (const message of messages) {
        const position: Position = { source: name, sequence, mark: '' }
        const lines = message.split('\n').map((text) => ({ partition: '3', sequence: position.sequence, text }))
        const chunk: Chunk = { lines, position, ack: () => void acked.push(position.sequence) }
        yield chunk
        sequence += 1n
      }
    },
    close: async () => {},
  }
}

async function take(source: Source, sink: Sink = store): Promise<void> {
  const deadLetters = await openDeadLetters(folder, () => {})
  await consume({
    source,
    sink,
    deadLetters,
    afterChunk: async () => {},
    signal: new AbortController().signal,
    log: () => {},
    tries: 3,
    pauseMs: 1,
  })
}

async function storedNames(): Promise<unknown[]> {
  return (await store.query('SELECT name FROM events ORDER BY epoch, sequence, event_index')).map(({ name }) => name)
}

function deadLetters(): { reason: string; sequence: string; line: string }[] {
  const text = readFileSync(join(folder, 'dead-letters.ndjson'), 'utf8')
  return text
    .trimEnd()
    .split('\n')
    .map((line) => JSON.parse(line))
}

describe('the store', () => {
  it('takes a batch once by its id, in one message or in two', async () => {
    const line = recordText({ events: [eventText('a')] })
    await take(sourceOf([`${line}\n${line}`, line]))
    expect(await storedNames()).toEqual(['a'])
  })

  it('takes an event once by its id and app, in one batch or in two', async () => {
    const one = recordText({ events: [eventText('a', ',"event_id":"1"'), eventText('b', ',"event_id":"1"')] })
    const again = recordText({ events: [eventText('c', ',"event_id":"1"'), eventText('d', ',"event_id":"2"')] })
    const otherApp = recordText({ appId: 'other', events: [eventText('e', ',"event_id":"1"')] })
    await take(sourceOf([`${one}\n${again}`, otherApp, again.replace('batch_id":"', 'batch_id":"x')]))
    expect(await storedNames()).toEqual(['a', 'd', 'e'])
  })

  it('takes all events that have no id, or one that is no text', async () => {
    await take(
      sourceOf([recordText({ events: [eventText('a'), eventText('a'), eventText('a', ',"event_id":1'), '1'] })]),
    )
    expect(await storedNames()).toEqual(['a', 'a', 'a', null])
  })

  it('takes the events of a batch that it passed over when they come in another one', async () => {
    const first = recordText({ batchId: 'b', events: [eventText('a')] })
    const otherBody = recordText({ batchId: 'b', events: [eventText('lost', ',"event_id":"1"')] })
    await take(sourceOf([first, otherBody, otherBody.replace('"b"', '"c"')]))
    expect(await storedNames()).toEqual(['a', 'lost'])
  })

  it('knows ids of any length, and those of the last 73 hours after a restart', async () => {
    const long = `,"event_id":"${'x'.repeat(300_000)}"`
    const at = (hours: number) => new Date(Date.now() - hours * 3_600_000).toISOString()
    await take(sourceOf([recordText({ receivedAt: at(73), events: [eventText('a', long)] })]))
    store.close()
    store = await openStore(folder)
    // What is too old goes after each write.
    await take(sourceOf([recordText({ receivedAt: at(0), events: [eventText('b')] })], 2n))
    await take(sourceOf([recordText({ receivedAt: at(0), events: [eventText('c', long)] })], 3n))
    expect(await storedNames()).toEqual(['a', 'b'])
  })

  it('forgets ids that are older', async () => {
    const receivedAt = (hours: number) => new Date(Date.now() - hours * 3_600_000).toISOString()
    await take(sourceOf([recordText({ receivedAt: receivedAt(75), events: [eventText('a')] })]))
    store.close()
    store = await openStore(folder)
    await take(sourceOf([recordText({ receivedAt: receivedAt(0), events: [] })], 2n))
    expect(await store.query('SELECT key FROM seen')).toHaveLength(1)
  })

  it('has an event that DuckDB cannot read beside those that it can, and no query fails', async () => {
    const events = [eventText('\\ud800'), eventText('fine', ',"n":12345678901234567890123,"far":1e999')]
    await take(sourceOf([recordText({ events })]))
    const found = await store.query("SELECT name, event->>'n' AS n, unreadable FROM events ORDER BY event_index")
    expect(found).toEqual([
      { name: '\ufffd', n: null, unreadable: events[0] },
      { name: 'fine', n: '12345678901234567890123', unreadable: null },
    ])
  })

  it('gives rows another epoch when sequences begin again, or the stream is another one', async () => {
    await take(
      sourceOf(
        ['a', 'b', 'c'].map((name) => recordText({ events: [eventText(name)] })),
        5n,
      ),
    )
    await take(sourceOf([recordText({ events: [eventText('d')] })], 2n))
    await take(sourceOf([recordText({ events: [eventText('e')] })], 3n, 'another'))
    const epochs = await store.query('SELECT count(*)::INTEGER AS rows FROM events GROUP BY epoch ORDER BY rows')
    expect(epochs.map(({ rows }) => rows)).toEqual([1, 1, 3])
    expect(store.position()).toMatchObject({ source: 'another', sequence: 3n })
  })
})

describe('the loop', () => {
  it('is stopped by nothing in the queue: what it cannot read becomes a dead letter', async () => {
    const versionTwo = recordText({ events: [eventText('two')] }).replace('"v":1', '"v":2')
    await take(sourceOf(['hello', versionTwo, recordText({ events: [eventText('after')] })]))
    expect(await storedNames()).toEqual(['after'])
    expect(deadLetters().map(({ reason, sequence, line }) => [reason, sequence, line])).toEqual([
      ['not JSON', '1', 'hello'],
      ['version 2 is unknown', '2', versionTwo],
    ])
    expect(acked).toEqual([1n, 2n, 3n])
  })

  /** Fails while one of the records has this name in it. */
  function failingOn(name: string, failures = Infinity): Sink {
    let left = failures
    return {
      position: () => store.position(),
      write: (records, end, isWhole) => {
        if (records.some(({ line }) => line.text.includes(name)) && left-- > 0) throw new Error('no such luck')
        return store.write(records, end, isWhole)
      },
    }
  }

  it('makes a dead letter of a record that the sink refuses at every try, and stores those beside it', async () => {
    const [a, bad, b] = ['a', 'bad', 'b'].map((name) => recordText({ events: [eventText(name)] }))
    await take(sourceOf([`${a}\n${bad}\n${b}`, recordText({ events: [eventText('c')] })]), failingOn('"bad"'))
    expect(await storedNames()).toEqual(['a', 'b', 'c'])
    expect(deadLetters()).toMatchObject([{ reason: 'not stored after 3 tries: no such luck', line: bad }])
    expect(store.position()?.sequence).toBe(2n)
    expect(acked).toEqual([1n, 2n])
  })

  it('makes none of a record that is taken at the last try', async () => {
    await take(sourceOf([recordText({ events: [eventText('late')] })]), failingOn('"late"', 2))
    expect(await storedNames()).toEqual(['late'])
    expect(() => deadLetters()).toThrow('ENOENT')
  })

  it('ends, and gives up no record, where the sink takes nothing at all', async () => {
    const sink: Sink = {
      position: () => null,
      write: () => {
        throw new Error('the disk is full')
      },
    }
    await expect(take(sourceOf([recordText({ events: [eventText('a')] })]), sink)).rejects.toThrow('the disk is full')
    expect(() => deadLetters()).toThrow('ENOENT')
    expect(acked).toEqual([])
  })
})
