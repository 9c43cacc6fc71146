// Text of clients, names and errors on a terminal: no character of it steers the terminal or turns the direction of the text.

const CONTROLS = /[\p{Cc}\p{Bidi_Control}]/gu

/** With a question mark for each such character. */
export function printable(text: string): string {
  return text.replace(CONTROLS, '?')
}

/** The same of a message, whose line feeds are its own. */
export function printableLines(text: string): string {
  return text.split('\n').map(printable).join('\n')
}

/** Valid JSON with such characters escaped. Those up to U+001F are escaped in any JSON. */
export function escapedJson(json: string): string {
  return json.replace(/[\u007f-\u009f\p{Bidi_Control}]/gu, (found) => {
    return `\\u${found.charCodeAt(0).toString(16).padStart(4, '0')}`
  })
}

/** A line of JSON whose strings will be printed as they are: with question marks in them, but for line feeds. */
export function printableJson(json: string): string {
  const escapes = /\\(?:u([\da-f]{4})|(.))/gi
  const withoutC0 = json.replace(escapes, (found, code: string | undefined, letter: string | undefined) => {
    const isControl =
      code === undefined ? 'bfrt'.includes(letter ?? '') : CONTROLS.test(String.fromCharCode(Number.parseInt(code, 16)))
    CONTROLS.lastIndex = 0
    return isControl ? '?' : found
  })
  return withoutC0.replace(/[\u007f-\u009f\p{Bidi_Control}]/gu, '?')
}
