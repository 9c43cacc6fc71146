// One line of `sluice check`.

/** Beyond this share of its maximum a queue is warned of. */
export const NEARLY_FULL_SHARE = 0.8

export interface Finding {
  readonly part: string
  readonly state: 'ok' | 'warn' | 'FAIL'
  readonly detail: string
}

export function finding(part: string, state: Finding['state'], detail: string): Finding {
  return { part, state, detail }
}

/** ok without complaints, otherwise warn. */
export function findingWith(part: string, detail: string, complaints: readonly string[]): Finding {
  return finding(part, complaints.length === 0 ? 'ok' : 'warn', [detail, ...complaints].join('; '))
}
