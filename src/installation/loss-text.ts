// What a loss is called in the log: what is gone, what clients notice, and what to do.

import type { StoredState } from '../nats/stored-state.ts'
import type { LossKind, StoreName } from './record.ts'

const RUNBOOK = 'docs/runbooks.md, SluiceStoreLost'

const STORES = {
  stream: {
    name: 'the stream SLUICE_EVENTS',
    thing: ['message', 'messages'],
    advice: `clients notice nothing, and consumers do not get what they had not read; unless it was meant, bring it back from a backup (${RUNBOOK})`,
  },
  apps: {
    name: 'the bucket SLUICE_APPS',
    thing: ['app record', 'app records'],
    advice: `nodes that know them go on, and a node that starts answers 503 (apps_unread); bring them back with sluice apps import, or say sluice apps adopt-empty where it is meant (${RUNBOOK})`,
  },
  counts: {
    name: 'the bucket SLUICE_COUNTS',
    thing: ['entry', 'entries'],
    advice: `the audit goes on from the sums in Redis, or where those are gone too, from what the stream holds, and then limits of the day and month may be given out again: see sluice usage (${RUNBOOK})`,
  },
} as const satisfies Record<StoreName, object>

export function nameOf(store: StoreName): string {
  return STORES[store].name
}

export function lossText(store: StoreName, loss: LossKind, known: StoredState, seen: StoredState | null): string {
  const { name, thing, advice } = STORES[store]
  const counted = (count: number): string => `${count} ${thing[count === 1 ? 0 : 1]}`
  const all = `${counted(known.messages)}, stored from ${timeText(known.firstAtMs)} to ${timeText(known.lastAtMs)}, are gone`
  switch (loss) {
    case 'absent':
      return `${name} is gone: ${all}; ${advice}`
    case 'new':
      return `${name} is a new one: ${all}; ${advice}`
    case 'emptied':
      return `${name} was emptied: ${all}; ${advice}`
    case 'shorter': {
      const lost = Math.min(known.messages, known.lastSequence - (seen?.lastSequence ?? 0))
      const since = timeText(seen?.lastAtMs ?? known.firstAtMs)
      return `${name} has lost its end: the last ${counted(lost)}, stored from ${since} to ${timeText(known.lastAtMs)}, are gone; ${advice}`
    }
    case 'overwritten':
      return `${name} has lost its end, and has stored others since: number ${known.lastSequence}, stored at ${timeText(known.lastAtMs)}, is another now, and so may be some before it; ${advice}`
  }
}

function timeText(ms: number | null): string {
  return ms === null ? 'an unknown time' : new Date(ms).toISOString()
}
