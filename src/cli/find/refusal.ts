// What the running service still knows of a request that it refused, by its X-Request-Id.

import { errorMessage } from '../../lib/errors.ts'
import { formatSpan } from '../../lib/format.ts'
import type { Config } from '../../settings/config.ts'
import { askForList } from '../admin-api.ts'
import { paint, type Shell } from '../shell.ts'
import { formatTable, printable } from '../table.ts'

/** Its nodes wait half a second for each other. */
const TIMEOUT_MS = 3000
/** In this order, those that it has. The time and the code stand in the sentence above. */
const SHOWN = ['reason', 'path', 'shape', 'origin', 'message', 'sdk_version', 'node'] as const

type Refusal = Readonly<Record<string, unknown>>

/** A sentence where none is known. */
export async function askForRefusal(config: Config, requestId: string): Promise<Refusal | string> {
  try {
    const path = `/api/refusals?request_id=${requestId}&limit=1`
    const refusals = await askForList(config, path, 'refusals', AbortSignal.timeout(TIMEOUT_MS))
    // A service of an earlier version answers with its newest one.
    const known = refusals.map((one) => Object(one) as Refusal).find((one) => one['request_id'] === requestId)
    return known ?? 'the running service knows no refusal with this id, of the newest ones that it keeps'
  } catch (error) {
    return `the service could not be asked whether it refused a request with this id: ${errorMessage(error)}`
  }
}

export function refusalText(refusal: Refusal, shell: Pick<Shell, 'colour' | 'clock'>): string {
  const text = (member: string): string => printable(String(refusal[member]))
  const ago = formatSpan(Math.max(0, shell.clock() - Date.parse(text('time'))))
  const app = refusal['app_id'] === null ? 'no known app' : `app ${text('app_id')}`
  const verdict = paint('red', `Request ${text('request_id')} of ${app} was refused`, shell)
  const rows = SHOWN.filter((member) => (refusal[member] ?? null) !== null).map((member) => [member, text(member)])
  return `${verdict} at ${text('time')}, ${ago} ago: ${text('code')}.\n${formatTable(rows)}`
}
