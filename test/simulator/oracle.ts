// What the judge may find, and what it does not report yet.

export type Oracle =
  | 'a limit was exceeded'
  | 'a 202 is not stored'
  | 'a batch was accepted twice'
  | 'a key is stored twice'
  | 'a replay was refused'
  | 'a stored key was refused'
  | 'a batch was refused although there was room'
  | 'counters differ from what is stored'
  | 'less was accepted than NATS stored'
  | 'Redis was declared away while it answered'
  | 'the service does not recover'
  | 'requests are lost'
  | 'a stage threw'
  | 'an answer came late'
  | 'a loss is not reported'
  | 'a loss is reported that did not happen'
  | 'damage is not reported'
  | 'damage is reported that did not happen'
  | 'an alert was lost'
  | 'an alert was raised twice or for nothing'

/** Those that hold whatever the disk loses. */
export const OF_THE_PROCESS: readonly Oracle[] = [
  'the service does not recover',
  'requests are lost',
  'a stage threw',
  'an answer came late',
  'damage is not reported',
]

/** Oracles that the service does not satisfy yet, and what each waits for. The list is to become empty. */
export const AWAITED: Readonly<Partial<Record<Oracle, string>>> = {}

export interface Violation {
  readonly oracle: Oracle
  readonly atMs: number
  readonly detail: string
}
