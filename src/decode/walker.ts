// Walks over any JSON where it lies, one pass and no objects. This is the part of the scanner that knows the
// grammar and not the schema.
//
// Every method takes the position at which its part begins and returns the one after it. None tests for the
// body's end: NUL bytes stand there, and NUL fits nowhere. What fails returns `this.nowhere`, the second of
// them, so that whatever is tried next fails too, and only the outermost step has to look.

import { MAX_DEPTH } from './decoded.ts'
import { fourBytes } from './names.ts'
import { numberEnd, plainEnd, restOfString } from './text.ts'

const QUOTE = 0x22
const COMMA = 0x2c
const COLON = 0x3a
const OPEN_BRACKET = 0x5b
const CLOSE_BRACKET = 0x5d
const LOWER_F = 0x66
const LOWER_N = 0x6e
const LOWER_T = 0x74
const OPEN_BRACE = 0x7b
const CLOSE_BRACE = 0x7d

const TRUE = fourBytes('true')
const ALSE = fourBytes('alse')
const NULL = fourBytes('null')
const FOUR_SPACES = fourBytes('    ')

export class Walker {
  /** Line breaks stand between the tokens of the last body. */
  sawLineBreak = false
  protected readonly notes = { nonAscii: false }
  protected nowhere = 0
  protected readonly view: DataView

  constructor(view: DataView) {
    this.view = view
  }

  /** Any value; `depth` containers are open around it. */
  protected value(p: number, depth: number): number {
    const view = this.view
    switch (view.getUint8(p)) {
      case QUOTE:
        return this.string(p)
      case OPEN_BRACE:
        return depth < MAX_DEPTH ? this.object(p + 1, depth + 1) : this.nowhere
      case OPEN_BRACKET:
        return depth < MAX_DEPTH ? this.array(p + 1, depth + 1) : this.nowhere
      case LOWER_T:
        return view.getInt32(p, true) === TRUE ? p + 4 : this.nowhere
      case LOWER_F:
        return view.getInt32(p + 1, true) === ALSE ? p + 5 : this.nowhere
      case LOWER_N:
        return view.getInt32(p, true) === NULL ? p + 4 : this.nowhere
      default:
        return this.number(p)
    }
  }

  protected object(p: number, depth: number): number {
    const view = this.view
    p = this.space(p)
    if (view.getUint8(p) === CLOSE_BRACE) return p + 1
    for (;;) {
      if (view.getUint8(p) !== QUOTE) return this.nowhere
      const next = this.afterMember(this.value(this.colon(this.string(p)), depth))
      if (next < 0) return ~next
      p = next
    }
  }

  protected array(p: number, depth: number): number {
    const view = this.view
    p = this.space(p)
    if (view.getUint8(p) === CLOSE_BRACKET) return p + 1
    for (;;) {
      p = this.space(this.value(p, depth))
      const byte = view.getUint8(p)
      if (byte === CLOSE_BRACKET) return p + 1
      if (byte !== COMMA) return this.nowhere
      p = this.space(p + 1)
    }
  }

  protected number(p: number): number {
    const end = numberEnd(this.view, p)
    return end < 0 ? this.nowhere : end
  }

  /** The string whose opening quote is at `p`. */
  protected string(p: number): number {
    const end = plainEnd(this.view, p + 1)
    return this.view.getUint8(end) === QUOTE ? end + 1 : this.slowString(end)
  }

  protected slowString(p: number): number {
    const end = restOfString(this.view, p, this.notes)
    return end < 0 ? this.nowhere : end + 1
  }

  /** From the end of a name to its value. */
  protected colon(p: number): number {
    const view = this.view
    if (view.getUint8(p) === COLON && view.getUint8(p + 1) > 0x20) return p + 1
    p = this.space(p)
    return view.getUint8(p) === COLON ? this.space(p + 1) : this.nowhere
  }

  /** From the end of a member to the next one; where its object ends, the complement of the position after it. */
  protected afterMember(p: number): number {
    const view = this.view
    p = this.space(p)
    const byte = view.getUint8(p)
    if (byte === COMMA) return this.space(p + 1)
    return byte === CLOSE_BRACE ? ~(p + 1) : this.nowhere
  }

  protected space(p: number): number {
    return this.view.getUint8(p) > 0x20 ? p : this.longSpace(p)
  }

  protected longSpace(p: number): number {
    const view = this.view
    for (;;) {
      const byte = view.getUint8(p)
      if (byte === 0x0a || byte === 0x0d) {
        this.sawLineBreak = true
        p += 1
        // Indentation.
        while (view.getInt32(p, true) === FOUR_SPACES) p += 4
      } else if (byte === 0x20 || byte === 0x09) {
        p += 1
      } else {
        return p
      }
    }
  }
}
