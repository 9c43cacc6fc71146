// What is typed into, picked, copied and saved.

import type { ComponentChildren, JSX } from 'preact'
import { useEffect, useState } from 'preact/hooks'
import { Icon, type IconName } from './icons.tsx'
import { vars } from './ui.tsx'

const SAID_MS = 2000

/** Pages over plain HTTP have no clipboard of their own unless they come from loopback. */
async function copy(text: string): Promise<void> {
  if (isSecureContext) return await navigator.clipboard.writeText(text)
  const area = document.createElement('textarea')
  area.value = text
  document.body.append(area)
  area.select()
  document.execCommand('copy')
  area.remove()
}

export interface CopyProps {
  readonly text: string
  /** On a button; without it an id is shown, and copied by a click. */
  readonly label?: string
  readonly icon?: IconName
  readonly children?: ComponentChildren
}

export function Copy({ text, label, icon = 'copy', children }: CopyProps): JSX.Element {
  const [said, setSaid] = useState('')
  useEffect(() => {
    if (said === '') return
    const timer = setTimeout(() => setSaid(''), SAID_MS)
    return () => clearTimeout(timer)
  }, [said])
  const run = (event: Event): void => {
    event.preventDefault()
    void copy(text).then(
      () => setSaid('Copied'),
      () => setSaid('Not copied'),
    )
  }
  const status = (
    <span class="reader" role="status">
      {said}
    </span>
  )
  return label === undefined ? (
    <button type="button" class="id cut" title={`Copy ${text}`} onClick={run}>
      {said === '' ? (children ?? text) : said}
      {status}
    </button>
  ) : (
    <button type="button" class="button small bare" aria-label={label} title={label} onClick={run}>
      <Icon name={said === '' ? icon : 'check'} />
      {icon === 'copy' && (said === '' ? label.replace(/^Copy (?=JSON|curl|SLUICE)/, '') : said)}
      {status}
    </button>
  )
}

/** The first eight characters of an id, all of it by a click. */
export function ShortId({ id }: { id: string }): JSX.Element {
  return <Copy text={id}>{`${id.slice(0, 8)}…${id.slice(-2)}`}</Copy>
}

/** One of a few, such as a range. */
export interface TabsProps<T extends string> {
  readonly label: string
  readonly value: T
  readonly options: readonly (readonly [T, string])[]
  readonly onPick: (value: T) => void
}

export function Tabs<T extends string>({ label, value, options, onPick }: TabsProps<T>): JSX.Element {
  return (
    <div class="tabs" role="group" aria-label={label}>
      {options.map(([name, words]) => (
        <button
          key={name}
          type="button"
          class="button small bare"
          aria-pressed={name === value}
          onClick={() => onPick(name)}
        >
          {words}
        </button>
      ))}
    </div>
  )
}

/** Of an input for ids and the like, which no browser may correct. */
export const AS_TYPED = {
  type: 'text',
  spellcheck: false,
  autocapitalize: 'off',
  autocomplete: 'off',
} as const

interface FieldProps {
  readonly id: string
  /** For a reader. */
  readonly name: string
  readonly icon: IconName
  readonly value: string
  readonly placeholder: string
  /** The id of what completes it. */
  readonly list?: string
  readonly class?: string
  /** With what is written; said below. */
  readonly problem?: string | null
  /** The key that leads to it. */
  readonly letter?: string
  readonly onText: (text: string) => void
  readonly children?: ComponentChildren
}

export function Field({ id, name, icon, problem = null, letter, onText, children, ...input }: FieldProps): JSX.Element {
  return (
    <div class="filter grow stack" role="search" style={vars({ gap: '2px' })}>
      <label for={id} class="reader">
        {name}
      </label>
      <span class={problem === null ? 'field' : 'field fail'}>
        <Icon name={icon} />
        <input
          id={id}
          {...AS_TYPED}
          {...input}
          aria-invalid={problem !== null}
          aria-describedby={`${id}-problem`}
          onInput={(event) => onText(event.currentTarget.value)}
        />
        {letter !== undefined && <kbd>{letter}</kbd>}
      </span>
      <span id={`${id}-problem`} class={problem === null ? 'reader' : 'said fail t12'} role="status">
        {problem}
      </span>
      {children}
    </div>
  )
}

/** Saves a text that the page has. */
export function save(name: string, type: string, text: string): void {
  const url = URL.createObjectURL(new Blob([text], { type }))
  const link = document.createElement('a')
  link.href = url
  link.download = name
  link.click()
  URL.revokeObjectURL(url)
}
