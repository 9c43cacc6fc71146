// `sluice tail --refused`: what the running service refuses, one JSON object a line.

import { MAX_REFUSALS_SHOWN } from '../../contract/admin/words.ts'
import { sleep, systemTimers } from '../../lib/timers.ts'
import type { Config } from '../../settings/config.ts'
import { askAdmin, askForList, eventsIn, objectIn, ServiceAway } from '../admin-api.ts'
import { print, type Shell, say } from '../shell.ts'
import { formatCount, jsonFor } from '../table.ts'

const FIRST_PAUSE_MS = 250
const MAX_PAUSE_MS = 5000
const MEMBERS = [
  'time',
  'app_id',
  'code',
  'reason',
  'origin',
  'path',
  'shape',
  'sdk_version',
  'request_id',
  'message',
  'node',
] as const

export interface RefusalsWanted {
  /** `-`: those of no known app. */
  readonly appId: string | undefined
  readonly fromStart: boolean
  readonly follow: boolean
  readonly signal: AbortSignal
}

/** Resolves with how many were printed. Throws a StartError where the service does not give them. */
export function printRefusals(config: Config, shell: Shell, wanted: RefusalsWanted): Promise<number> {
  return wanted.follow ? followRefusals(config, shell, wanted) : printKnown(config, shell, wanted)
}

/** The oldest first, as they come when one follows. */
async function printKnown(config: Config, shell: Shell, { appId, signal }: RefusalsWanted): Promise<number> {
  const query = queryOf({ app: appId, limit: `${MAX_REFUSALS_SHOWN}` })
  const refusals = await askForList(config, `/api/refusals?${query}`, 'refusals', signal)
  for (const refusal of refusals.toReversed()) await print(shell.stdout, lineOf(shell, refusal))
  return refusals.length
}

async function followRefusals(config: Config, shell: Shell, { appId, fromStart, signal }: RefusalsWanted) {
  let printed = 0
  let isFirst = true
  let isAway = false
  let pauseMs = FIRST_PAUSE_MS
  const tell = (message: string): Promise<void> => say(shell, `sluice tail: ${message}\n`)
  while (!signal.aborted) {
    try {
      const query = queryOf({ app: appId, from_start: isFirst && fromStart ? '1' : undefined })
      const response = await askAdmin(config, `/api/refusals/stream?${query}`, signal)
      if (isAway) await tell('reconnected; what was refused meanwhile is not shown')
      isFirst = false
      isAway = false
      for await (const { name, data } of eventsIn(response)) {
        pauseMs = FIRST_PAUSE_MS
        if (name === 'skipped')
          await tell(`${formatCount(Number(objectIn(data)['count']))} refusals came too fast to be shown`)
        if (name !== 'refusal') continue
        await print(shell.stdout, lineOf(shell, objectIn(data)))
        printed += 1
      }
    } catch (error) {
      if (!signal.aborted && (isFirst || !(error instanceof ServiceAway))) throw error
    }
    if (!isAway && !signal.aborted) await tell('the service cannot be reached for now')
    isAway = true
    await sleep(systemTimers, pauseMs, signal)
    pauseMs = Math.min(2 * pauseMs, MAX_PAUSE_MS)
  }
  return printed
}

function queryOf(members: Readonly<Record<string, string | undefined>>): string {
  const given = Object.entries(members).filter((member): member is [string, string] => member[1] !== undefined)
  return new URLSearchParams(given).toString()
}

function lineOf(shell: Shell, refusal: unknown): string {
  const given = Object(refusal) as Record<string, unknown>
  const shown = Object.fromEntries(MEMBERS.map((member) => [member, given[member] ?? null]))
  return jsonFor(shell, `${JSON.stringify(shown)}\n`)
}
