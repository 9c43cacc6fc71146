// The header `Sluice-Cost` of a message: the costs of its records, so that the audit need not read the records. Records
// in a row that share minute, cycle and app form one run:
// `<minute> <first minute of the billing cycle> <app_id> <events> <events> …, <minute> …`

import { MAX_EVENTS } from '../bounds.ts'

export const COST_HEADER = 'Sluice-Cost'

const MAX_CYCLE_MINUTES = 32 * 24 * 60
const RUN = /^(\d{1,10}) (\d{1,10}) ([A-Za-z0-9_-]{1,64})((?: \d{1,3})+)$/

/** The cost of one record. Minutes are UTC minutes since 1970. */
export interface RecordCost {
  readonly minute: number
  readonly cycleMinute: number
  readonly appId: string
  readonly events: number
}

/** Builds the header's value from one record after another. */
export class CostText {
  #text = ''
  #last: RecordCost | null = null

  add(cost: RecordCost): void {
    const last = this.#last
    const isSameRun =
      last !== null && last.minute === cost.minute && last.cycleMinute === cost.cycleMinute && last.appId === cost.appId
    if (!isSameRun) {
      const separator = last === null ? '' : ', '
      this.#text += `${separator}${cost.minute} ${cost.cycleMinute} ${cost.appId}`
      this.#last = cost
    }
    this.#text += ` ${cost.events}`
  }

  toString(): string {
    return this.#text
  }
}

/** The sum of each run; null: the text is malformed, or its cycle cannot hold the minute. */
export function parseCosts(text: string): RecordCost[] | null {
  const costs: RecordCost[] = []
  for (const run of text.split(', ')) {
    const found = RUN.exec(run)
    if (found === null) return null
    const minute = Number(found[1])
    const cycleMinute = Number(found[2])
    if (cycleMinute > minute || minute - cycleMinute > MAX_CYCLE_MINUTES) return null
    let events = 0
    for (const word of found[4].slice(1).split(' ')) {
      const count = Number(word)
      if (count < 1 || count > MAX_EVENTS) return null
      events += count
    }
    costs.push({ minute, cycleMinute, appId: found[3], events })
  }
  return costs
}
