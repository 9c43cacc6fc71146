import { describe, expect, it } from 'vitest'
import { median, medianRatio, number, table } from '../../../load/bench/report.js'

describe('bench report', () => {
  it('takes the middle one, or the mean of the two in the middle, in any order', () => {
    expect(median([3, 1, 2])).toBe(2)
    expect(median([4, 1, 3, 2])).toBe(2.5)
    expect(median([10, 9, 100])).toBe(10)
  })

  it('takes the ratio within each pair before the median, so that a slow moment hits both halves', () => {
    expect(medianRatio([10, 1, 10], [20, 2, 20])).toBe(0.5)
    expect(medianRatio([10, 1, 30], [20, 10, 10])).toBe(0.5)
  })

  it('lines up a table for the terminal and for Markdown', () => {
    const rows = [
      ['one', number(1234.56)],
      ['three', number(0.5, 2)],
    ]
    expect(table('T', ['case', 'n'], rows, { markdown: false })).toBe('T\n\ncase       n\none    1,235\nthree   0.50\n')
    expect(table('T', ['case', 'n'], rows, { markdown: true })).toBe(
      '**T**\n\n| case  |     n |\n| ----- | ----: |\n| one   | 1,235 |\n| three |  0.50 |\n',
    )
  })
})
