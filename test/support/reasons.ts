// Finds the reason of a 503 wherever the people who run the service look: metric, log, list, and `sluice tail --refused`.

import { expect } from 'vitest'
import type { OverloadReason } from '../../src/contract/outcome.ts'
import { adviceText } from '../../src/contract/overload-advice.ts'
import { get, type Members } from './client.ts'
import { parsePage, sumOf } from './metrics.js'
import { runCommand } from './service.ts'

/** A service, in a process of its own or not. */
export interface Watched {
  readonly adminPort: number
  readonly dataDir: string
  /** Its log. */
  output(): string
}

export type Counts = Partial<Record<OverloadReason, number>>

/** Those of the metric that are not 0; and that their sum is the count of 503s. */
export async function overloadsOf({ adminPort }: Watched): Promise<Counts> {
  const page = parsePage((await get(adminPort, '/metrics')).text)
  const counts: Counts = {}
  for (const { name, labels, value } of page) {
    if (name === 'sluice_overloaded_total' && value > 0) counts[labels['reason'] as OverloadReason] = value
  }
  const all = sumOf(page, 'sluice_requests_total', { status: '503', code: 'service_overloaded' })
  expect(sumOf(page, 'sluice_overloaded_total')).toBe(all)
  return counts
}

/** The lines of the log that warn of this reason: the first of a minute, and the others. */
function warnings(watched: Watched, reason: string): { first: Members[]; minute: Members[] } {
  const lines = watched
    .output()
    .split('\n')
    .filter((line) => line.startsWith('{') && line.includes(`"reason":"${reason}"`))
    .map((line) => JSON.parse(line) as Members)
  const [first, minute] = ['503 ', 'refused '].map((start) => lines.filter(({ msg }) => String(msg).startsWith(start)))
  return { first, minute }
}

/** `app`: of the request; null: it is not known. */
export async function expectNamed(watched: Watched, reason: OverloadReason, app: string | null): Promise<void> {
  const { adminPort, dataDir } = watched
  expect((await overloadsOf(watched))[reason]).toBeGreaterThan(0)

  const named = { app_id: app, code: 'service_overloaded', reason }
  const list = (await get(adminPort, '/api/refusals?code=service_overloaded&limit=1000')).json
  expect(list['refusals']).toContainEqual(expect.objectContaining(named))
  expect(list['groups']).toContainEqual(expect.objectContaining(named))

  const env = { SLUICE_ADMIN_PORT: String(adminPort), SLUICE_DATA_DIR: dataDir }
  const tail = await runCommand(['tail', '--refused', '--no-follow'], env, dataDir)
  expect(tail.code, tail.output).toBe(0)
  const printed = tail.stdout
    .trimEnd()
    .split('\n')
    .map((line) => JSON.parse(line) as Members)
  expect(printed).toContainEqual(expect.objectContaining(named))

  // At once: the line of the minute comes later.
  const [first] = warnings(watched, reason).first
  expect(first).toMatchObject({ level: 'warn', reason, msg: `503 (${reason}): ${adviceText(reason)}` })
  expect(first['request_id']).toEqual(expect.stringMatching(/^[0-9a-f-]{36}$/))
}

/** After its end: the lines of the minutes have counted each of them. */
export function expectCounted(watched: Watched, counts: Counts): void {
  for (const [reason, count] of Object.entries(counts)) {
    const { minute } = warnings(watched, reason)
    expect(minute.reduce((sum, line) => sum + Number(line['count']), 0)).toBe(count)
    for (const { level, msg } of minute) {
      expect(level).toBe('warn')
      expect(msg).toMatch(
        new RegExp(`^refused \\d+ requests? with 503 in the last (minute|[\\d.]+ (s|min)) \\(${reason}\\): `),
      )
    }
  }
}
