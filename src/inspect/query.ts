// Members of a query. A sentence says what is wrong with one.

import { RANGE_NAMES, type Range } from '../contract/admin/words.ts'

/** null: no range, or none that is known. */
export function rangeIn(query: URLSearchParams): Range | null {
  const asked = query.get('range')
  return RANGE_NAMES.find((name) => name === asked) ?? null
}

/** Each is null where it is empty. */
export function textsIn<Name extends string>(
  query: URLSearchParams,
  names: readonly Name[],
  mostCharacters: number,
): Readonly<Record<Name, string | null>> | string {
  const texts = names.map((name) => [name, query.get(name) || null] as const)
  const long = texts.find(([, text]) => (text?.length ?? 0) > mostCharacters)
  if (long !== undefined) return `${long[0]}: must not exceed ${mostCharacters} characters`
  return Object.fromEntries(texts) as Readonly<Record<Name, string | null>>
}

/** Whether the member is there, as `1`. */
export function flagIn(query: URLSearchParams, name: string): boolean | string {
  const text = query.get(name) || null
  return text === null || text === '1' ? text !== null : `${name}: must be 1, where it is there`
}

/** `standard`: where it is not there. */
export function countIn(
  query: URLSearchParams,
  name: string,
  { most, standard }: { most: number; standard: number },
): number | string {
  const text = query.get(name) ?? String(standard)
  const isCount = /^[1-9]\d{0,5}$/.test(text) && Number(text) <= most
  return isCount ? Number(text) : `${name}: must be a whole number from 1 to ${most}`
}
