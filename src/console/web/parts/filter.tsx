// A filter as one line of words, `app:shop type:revenue name:check*`; in the URL each word is a member of the query.

import type { JSX } from 'preact'
import { useEffect, useId, useRef, useState } from 'preact/hooks'
import { UUID } from '../format.ts'
import { go, urlWith } from '../route.ts'
import { Field } from './controls.tsx'

export type Filter = Readonly<Record<string, string>>

const SETTLED_MS = 300
const MAX_SUGGESTIONS = 20

/** The first word that is not `key:value` of a known key makes it a problem. */
export function readFilter(text: string, keys: readonly string[]): { filter: Filter; problem: string | null } {
  const filter: Record<string, string> = {}
  for (const word of text.match(/\w+:"[^"]*"?|\S+/g) ?? []) {
    const colon = word.indexOf(':')
    const key = word.slice(0, colon)
    const value = word.slice(colon + 1).replaceAll('"', '')
    if (!keys.includes(key)) return { filter, problem: problemWith(word, keys) }
    if (value !== '') filter[key] = value
  }
  return { filter, problem: null }
}

/** With the likeliest right one: an id has a page, and a word alone is most often a name. */
function problemWith(word: string, keys: readonly string[]): string {
  if (UUID.test(word)) return `${word} is an id: find it with /.`
  if (!word.includes(':')) return `Did you mean ${keys.at(-1)}:${word}?`
  return `${word} is not a filter: write ${keys.map((one) => `${one}:…`).join(' ')}.`
}

export function writeFilter(filter: Filter): string {
  return Object.entries(filter)
    .map(([key, value]) => `${key}:${/\s/.test(value) ? `"${value}"` : value}`)
    .join(' ')
}

export function filterOf(query: URLSearchParams, keys: readonly string[]): Filter {
  return Object.fromEntries(keys.map((key) => [key, query.get(key) ?? '']).filter(([, value]) => value !== ''))
}

export interface FilterBoxProps {
  readonly query: URLSearchParams
  readonly keys: readonly string[]
  readonly example: string
  /** Known values of a key. */
  readonly values: Readonly<Record<string, readonly string[]>>
}

/** Writes into the URL, a moment after the last letter. */
export function FilterBox({ query, keys, example, values }: FilterBoxProps): JSX.Element {
  const id = useId()
  const inUrl = writeFilter(filterOf(query, keys))
  const [text, setText] = useState(inUrl)
  const written = useRef(inUrl)
  // The URL has changed otherwise: by a link, or by going back.
  useEffect(() => {
    if (written.current !== inUrl) setText(inUrl)
    written.current = inUrl
  }, [inUrl])
  const { filter, problem } = readFilter(text, keys)
  useEffect(() => {
    const wanted = writeFilter(filter)
    if (problem !== null || wanted === written.current) return
    const timer = setTimeout(() => {
      written.current = wanted
      const others = Object.fromEntries(keys.map((key) => [key, null]))
      go(urlWith({ ...others, ...filter, event: null, cause: null }), { replace: true })
    }, SETTLED_MS)
    return () => clearTimeout(timer)
  }, [text])
  return (
    <Field
      id={id}
      name="Filter"
      icon="filter"
      letter="f"
      list={`${id}-list`}
      value={text}
      placeholder={example}
      problem={problem}
      onText={setText}
    >
      <datalist id={`${id}-list`}>
        {suggestionsFor(text, keys, values).map((suggestion) => (
          <option key={suggestion} value={suggestion} />
        ))}
      </datalist>
    </Field>
  )
}

/** Whole lines, since that is what the browser's list puts into the box. */
export function suggestionsFor(text: string, keys: readonly string[], values: FilterBoxProps['values']): string[] {
  const before = text.slice(0, text.lastIndexOf(' ') + 1)
  const word = text.slice(before.length)
  const colon = word.indexOf(':')
  if (colon < 0) {
    const unused = keys.filter((key) => key.startsWith(word) && !before.includes(`${key}:`))
    return unused.map((key) => `${before}${key}:`)
  }
  const key = word.slice(0, colon)
  return (values[key] ?? [])
    .filter((value) => value.startsWith(word.slice(colon + 1)))
    .slice(0, MAX_SUGGESTIONS)
    .map((value) => before + writeFilter({ [key]: value }))
}
