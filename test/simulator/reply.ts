// Replies of Redis commands, and Lua's conversion of numbers to text.

export class ReplyError extends Error {
  override readonly name = 'ReplyError'
}

/** A status such as OK: text for a client, and a table for a script. */
export class Status {
  readonly text: string

  constructor(text: string) {
    this.text = text
  }
}

export const OK = new Status('OK')

export type Reply = number | string | null | Status | ReplyError | readonly Reply[]

/** Like C's `%.<digits>g`. */
export function formatNumber(value: number, digits: number): string {
  if (Number.isInteger(value) && value !== 0 && Math.abs(value) < 1e13) return String(value)
  if (value === 0) return Object.is(value, -0) ? '-0' : '0'
  if (Number.isNaN(value)) return 'nan'
  if (!Number.isFinite(value)) return value > 0 ? 'inf' : '-inf'
  const [mantissa, exponentText] = value.toExponential(digits - 1).split('e')
  const exponent = Number(exponentText)
  if (exponent < -4 || exponent >= digits) {
    const size = String(Math.abs(exponent)).padStart(2, '0')
    return `${withoutZeros(mantissa)}e${exponent < 0 ? '-' : '+'}${size}`
  }
  return withoutZeros(value.toFixed(Math.max(0, digits - 1 - exponent)))
}

function withoutZeros(text: string): string {
  return text.includes('.') ? text.replace(/\.?0+$/, '') : text
}
