// Events of one layout, which differ only in values, and bodies of many such events.

import { bodyOf, NOW_MS, objectText, type Random, stringText } from './bodies.ts'
import { judge } from './oracle.ts'

const MAX_BODY_BYTES = 500_000

/** Every member that an event may have, and one more in each object, as JSON text by name. */
export const FULL: Readonly<Record<string, string>> = {
  type: '"track"',
  name: '"plan_selected"',
  hashed_daily_id: '"0123456789abcdef0123456789abcdef"',
  hashed_monthly_id: '"123456789abcdef0"',
  hashed_retention_id: '"23456789abcdef0123456789abcdef01"',
  session_id: '"3f2b8c1e-9d4a-4e6b-8f1a-0123456789ab"',
  timestamp: '"2026-11-20T11:59:30.250Z"',
  user_id: '"u-1"',
  build: '17',
  context: objectText({
    os: '"iOS"',
    os_version: '"17.4.1"',
    app_version: '"3.12.0"',
    locale: '"en_US"',
    device_type: '"iPhone15,2"',
    screen_width: '1179',
    screen_height: '2556',
    theme: '"dark"',
  }),
  properties: objectText({ button: '"subscribe"', position: '10', first: 'true', tags: '["a",{"b":null}]' }),
  revenue: objectText({ amount: '9.99', currency: '"EUR"' }),
}

export function alike(changes: Readonly<Record<string, string>> = {}): string {
  return objectText({ ...FULL, ...changes })
}

/** An event of the same layout, with other values of the usual kinds. */
export function alikeAtRandom(random: Random): string {
  const hex = (digits: number) => `"${Array.from({ length: digits }, () => random(16).toString(16)).join('')}"`
  const atMs = NOW_MS - random(7_200_000)
  return alike({
    type: ['"track"', '"screen"', '"revenue"'][random(3)],
    name: stringText(random, 1 + random(40)),
    hashed_daily_id: hex(32),
    session_id: hex(36),
    timestamp: `"${new Date(atMs).toISOString()}"`,
    build: String(random(1000)),
    properties: objectText({
      button: stringText(random, random(20)),
      position: String(random(3) === 0 ? random(1000) / 8 : random(100)),
      first: ['true', 'false', 'null', '"no"', '0'][random(5)],
      tags: ['[]', '{}', '["x"]', '[{"b":[1,2]}]'][random(4)],
    }),
  })
}

/**
 * Shows the oracle's scanners so many events alike that they know the layout, whatever they were shown before: after
 * bodies in which no two events were alike, a scanner learns only now and then.
 */
export function teach(event: string): void {
  const count = Math.min(100, Math.floor(MAX_BODY_BYTES / event.length))
  const body = Buffer.from(bodyOf(...Array<string>(count).fill(event)))
  for (let shown = 0; shown < 300; shown += count) judge(body)
}
