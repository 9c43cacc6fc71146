// Bodies of another day, at which a date that the calendar does not have would lie within the range of time.

import { NOW_MS, type Random } from '../unit/decode/bodies.ts'

/** A day that events may name, one that no calendar has, or a rarer one that it has, and a clock at which both count. */
const CLOCKS: readonly (readonly [usual: string, odd: string, now: string])[] = [
  ['2026-11-30', '2026-11-31', '2026-12-01T12:00:00Z'],
  ['2026-12-31', '2026-12-32', '2027-01-01T12:00:00Z'],
  ['2026-12-31', '2026-13-01', '2027-01-01T12:00:00Z'],
  ['2026-12-31', '2027-00-31', '2027-01-01T12:00:00Z'],
  ['2027-02-28', '2027-02-29', '2027-03-01T12:00:00Z'],
  ['2027-02-28', '2027-03-00', '2027-03-01T12:00:00Z'],
  ['2028-02-28', '2028-02-29', '2028-03-01T12:00:00Z'],
  ['2028-02-29', '2028-02-30', '2028-03-01T12:00:00Z'],
  ['2100-02-28', '2100-02-29', '2100-03-01T12:00:00Z'],
  ['2000-02-28', '2000-02-29', '2000-03-01T12:00:00Z'],
  ['2027-04-30', '2027-04-31', '2027-05-01T12:00:00Z'],
  ['2027-06-30', '2027-06-31', '2027-07-01T12:00:00Z'],
  ['2027-09-30', '2027-09-31', '2027-10-01T12:00:00Z'],
  ['2027-07-31', '2027-08-01', '2027-08-02T12:00:00Z'],
]
/** The day of all other bodies. */
const DAY = new Date(NOW_MS).toISOString().slice(0, '2026-11-20'.length)
/** Bytes keep their places. */
const ENCODING = 'latin1'

/** Moves bodies to another day in place, and one event of each to the odd one. Gives the time that it is there. */
export function moveToAnotherDay(random: Random, bodies: readonly Buffer[]): number {
  const [usual, odd, now] = CLOCKS[random(CLOCKS.length)]
  for (const body of bodies) {
    const places = placesOf(body)
    for (const at of places) body.write(usual, at, ENCODING)
    if (places.length > 0 && random(4) > 0) body.write(odd, places[random(places.length)], ENCODING)
  }
  return Date.parse(now) + random(3) - 1
}

function placesOf(body: Buffer): number[] {
  const places: number[] = []
  for (let at = body.indexOf(DAY); at >= 0; at = body.indexOf(DAY, at + DAY.length)) places.push(at)
  return places
}
