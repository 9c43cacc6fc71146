import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, test } from 'vitest'
import { formatTable, jsonFor } from '../../../src/cli/table.ts'
import { escapedJson, printable, printableJson, printableLines } from '../../../src/lib/printable.ts'

/** C0, DEL, C1 (with CSI and OSC), and what turns the direction of text. */
const CONTROLS = '\u0000\u0007\b\t\n\r\u001b\u007f\u0080\u009b\u009d\u009f\u061c\u200e\u202a\u202e\u2066\u2069'
const HARMLESS = 'aé€日\u00a0\u200d👩‍👩‍👧 '

describe('text on a terminal', () => {
  test('has a question mark for each character that the terminal obeys, and every other as it was', () => {
    expect(printable(CONTROLS + HARMLESS)).toBe('?'.repeat(CONTROLS.length) + HARMLESS)
    expect(printableLines('a\u001b[2J\nb\r')).toBe('a?[2J\nb?')
    expect(formatTable([['a\u009b2J', 'b\nc']])).toBe('a?2J  b?c\n')
  })

  test('as JSON has them escaped, and means the same', () => {
    const json = JSON.stringify({ [CONTROLS]: CONTROLS + HARMLESS })
    expect(printable(escapedJson(json))).toBe(escapedJson(json))
    expect(JSON.parse(escapedJson(json))).toEqual(JSON.parse(json))
    expect(jsonFor({ terminal: true }, json)).toBe(escapedJson(json))
    expect(jsonFor({ terminal: false }, json)).toBe(json)
  })

  test('as a line of the log has question marks in its strings, and keeps line feeds and backslashes', () => {
    const line = printableJson(`${JSON.stringify({ msg: CONTROLS + HARMLESS, path: 'C:\\u001b \\\\ "' })}\n`)
    const { msg, path } = JSON.parse(line) as Record<string, string>
    expect(msg).toBe(`????\n${'?'.repeat(CONTROLS.length - 5)}${HARMLESS}`)
    expect(path).toBe('C:\\u001b \\\\ "')
  })

  test('of a command is written by say, or as a table or JSON: no command writes to stderr by itself', () => {
    const root = join(import.meta.dirname, '../../../src/cli')
    const files = readdirSync(root, { recursive: true, encoding: 'utf8' }).filter((name) => name.endsWith('.ts'))
    const by = files.filter((name) =>
      /stderr\.write|print\((?:shell\.)?stderr/.test(readFileSync(join(root, name), 'utf8')),
    )
    expect(by).toEqual(['shell.ts'])
  })
})
