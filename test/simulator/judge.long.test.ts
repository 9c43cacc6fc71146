// The judge, held to broken parts: what it must report. A judge that lets all pass is worth nothing.

import { beforeAll, describe, expect, it } from 'vitest'
import type { Admission } from '../../src/limits/admission.ts'
import { generate } from './generate.ts'
import { type History, type HistoryKind } from './history.ts'
import { LuaMachine } from './lua.ts'
import { type NodeParts, type OpenParts, openParts } from './parts.ts'
import { run } from './run.ts'
import { anApp, history, send } from './scenario.ts'
import { shrink } from './shrink.ts'

let lua: LuaMachine

beforeAll(async () => {
  lua = await LuaMachine.open()
})

describe('the simulator', () => {
  it('runs the same history the same way each time', async () => {
    for (const seed of [4, 11])
      expect(await run(generate(seed, 'all'), lua)).toEqual(await run(generate(seed, 'all'), lua))
  })

  it('leaves irrelevant steps out of a failing history', async () => {
    const history = generate(64, 'plans')
    const plan = history.steps.find(({ kind }) => kind === 'plan')
    const least = await shrink(history, 'a limit was exceeded', async ({ steps }) => {
      return steps.some(({ kind }) => kind === 'plan') ? 'a limit was exceeded' : 'a 202 is not stored'
    })
    expect(least.steps).toEqual([plan])
    expect(least.nodes).toBe(1)
  })
})

/** A batch whose first answer is lost, and that is tried again. */
const DOUBTFUL: History['steps'] = [
  { atMs: 1900, kind: 'acks late', byMs: 3000, forMs: 1000 },
  send(2000, { events: 5, keyed: true, tries: 2, retryAfterMs: 500 }),
]

/** A node with one broken part. */
function withBroken(breakPart: (parts: NodeParts) => Partial<NodeParts>): OpenParts {
  return async (seams) => {
    const parts = await openParts(seams)
    return { ...parts, ...breakPart(parts) }
  }
}

describe('the judge', () => {
  const oracleOf = async (history: History, open: OpenParts): Promise<string | undefined> => {
    return (await run(history, lua, open)).violation?.oracle
  }
  /** The first violation found in 20 seeds. */
  const firstFound = async (kind: HistoryKind, open: OpenParts): Promise<string | undefined> => {
    for (let seed = 1; seed <= 20; seed++) {
      const oracle = await oracleOf(generate(seed, kind), open)
      if (oracle !== undefined) return oracle
    }
    return undefined
  }
  const admissionOf = ({ admission }: NodeParts): Admission => ({
    admit: admission.admit.bind(admission),
    replayOf: admission.replayOf.bind(admission),
    end: admission.end.bind(admission),
    view: admission.view.bind(admission),
    nearLimits: admission.nearLimits.bind(admission),
    usages: admission.usages.bind(admission),
    days: admission.days.bind(admission),
  })
  /** Ignores and forgets every key. */
  const withoutKeys = (parts: NodeParts): Admission => ({
    ...admissionOf(parts),
    admit: (app, events) => parts.admission.admit(app, events, null, null),
    end: (app, charge, _key, end, events) => parts.admission.end(app, charge, null, end, events),
  })

  it('detects limits that refuse nothing', async () => {
    const endless = { eventsPerMinute: 1e9, eventsPerDay: null, eventsPerMonth: 1e9 }
    const open = withBroken((parts) => ({
      admission: {
        ...admissionOf(parts),
        admit: (app, events, key) => parts.admission.admit({ ...app, ...endless }, events, key, null),
      },
    }))
    expect(await firstFound('calm', open)).toBe('a limit was exceeded')
  })

  it('detects limits that refuse where there is room', async () => {
    const open = withBroken((parts) => ({
      admission: {
        ...admissionOf(parts),
        admit: (app, events, key) =>
          parts.admission.admit({ ...app, eventsPerMinute: Math.floor(app.eventsPerMinute / 2) }, events, key, null),
      },
    }))
    expect(await firstFound('calm', open)).toBe('a batch was refused although there was room')
  })

  it('detects a key that is refused although its batch is stored', async () => {
    const open = withBroken((parts) => ({ admission: withoutKeys(parts) }))
    const apps = [anApp(0, { events_per_minute: 5 })]
    const found = await oracleOf(history('doubtful', { nodes: 1, apps, steps: DOUBTFUL, endMs: 20_000 }), open)
    expect(found).toBe('a stored key was refused')
  })

  it('detects an answer that comes late', async () => {
    const hasty = { ...generate(1, 'calm'), maxAnswerMs: 0.1 }
    expect(await oracleOf(hasty, openParts)).toBe('an answer came late')
  })

  it('detects stored events that were not charged', async () => {
    const open = withBroken((parts) => ({
      queue: {
        publish: (record, settled) =>
          parts.queue.publish({ ...record, charge: { ...record.charge, events: 1 } }, settled),
        stop: () => parts.queue.stop(),
      },
    }))
    expect(await firstFound('calm', open)).toBe('counters differ from what is stored')
  })

  it('detects a 202 for a batch that is not stored', async () => {
    const open = withBroken(({ queue }) => ({
      queue: { publish: (_record, settled) => queueMicrotask(() => settled('durable')), stop: () => queue.stop() },
    }))
    expect(await firstFound('calm', open)).toBe('a 202 is not stored')
  })

  it('detects a queue that does not answer', async () => {
    const open = withBroken(({ queue }) => ({ queue: { publish: () => {}, stop: () => queue.stop() } }))
    expect(await firstFound('calm', open)).toBe('the service does not recover')
  })

  it('detects a key that is stored twice', async () => {
    const open = withBroken((parts) => ({
      admission: withoutKeys(parts),
      queue: {
        publish: (record, settled) => parts.queue.publish({ ...record, keyed: false }, settled),
        stop: () => parts.queue.stop(),
      },
    }))
    expect(await firstFound('calm', open)).toBe('a key is stored twice')
  })

  it('detects a replay that is refused because its key was forgotten', async () => {
    const open = withBroken((parts) => ({ admission: withoutKeys(parts) }))
    expect(await firstFound('calm', open)).toBe('a replay was refused')
  })

  it('detects a loss in NATS that is not reported, and one that is reported and did not happen', async () => {
    const steps: History['steps'] = [send(1000, {}), { atMs: 60_000, kind: 'stream lost' }]
    const silent: OpenParts = (seams) => openParts({ ...seams, onLoss: () => {} })
    expect(await oracleOf(history('lost', { steps, endMs: 80_000 }), silent)).toBe('a loss is not reported')
    const wrong: OpenParts = (seams) => {
      seams.onLoss('counts', 'the bucket SLUICE_COUNTS is gone')
      return openParts(seams)
    }
    const calm = history('calm', { steps: [send(1000, {})], endMs: 2000 })
    expect(await oracleOf(calm, wrong)).toBe('a loss is reported that did not happen')
  })

  it('detects a stage that throws', async () => {
    const open = withBroken((parts) => ({
      admission: {
        ...admissionOf(parts),
        end: () => {
          throw new Error('broken')
        },
      },
    }))
    expect(await firstFound('calm', open)).toBe('a stage threw')
  })
})
