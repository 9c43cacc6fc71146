// The keyboard. A key means what the newest of those who want it says; in a field it is a letter.

import { useLayoutEffect, useRef } from 'preact/hooks'

export type Keys = Readonly<Record<string, (event: KeyboardEvent) => void>>

const wanted: { readonly current: Keys }[] = []

function press(event: KeyboardEvent): void {
  const target = event.target instanceof Element ? event.target : null
  const isCommand = (event.ctrlKey || event.metaKey) && event.key.toLowerCase() === 'k'
  if (event.altKey || ((event.ctrlKey || event.metaKey) && !isCommand)) return
  const name = isCommand ? 'command-k' : event.key
  // What a field or a button does with its own keys stays so; a dialog closes itself.
  if (target?.closest('input, textarea, select') && !isCommand && name !== 'Escape') return
  if (name === ' ' && target?.closest('button, summary, pre')) return
  if (document.querySelector('dialog[open]') !== null && !target?.closest('main')) return
  const keys = wanted.findLast(({ current }) => Object.hasOwn(current, name))
  if (keys === undefined || event.defaultPrevented) return
  event.preventDefault()
  keys.current[name](event)
}

/** Before the next key: effects wait for a drawing, and one pressed before would be lost. */
export function useKeys(keys: Keys): void {
  const current = useRef(keys)
  current.current = keys
  useLayoutEffect(() => {
    if (wanted.length === 0) document.addEventListener('keydown', press)
    wanted.push(current)
    return () => {
      wanted.splice(wanted.indexOf(current), 1)
      if (wanted.length === 0) document.removeEventListener('keydown', press)
    }
  }, [])
}
