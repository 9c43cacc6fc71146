// A long list in the page: only the rows in sight are in the document, so that thousands scroll smoothly.

import type { ComponentChildren, JSX } from 'preact'
import { useEffect, useLayoutEffect, useRef, useState } from 'preact/hooks'

/** No list moves then: a row would not be the one that is clicked. */
export function isAimedAt(): boolean {
  return document.querySelector('.rows:hover, .rows:focus-within') !== null
}

/** Arrows go from row to row. */
function step(event: KeyboardEvent): void {
  if (event.altKey || event.ctrlKey || event.metaKey || !(event.target instanceof Element)) return
  const row = event.target.closest('li')
  const next = { ArrowDown: row?.nextElementSibling, ArrowUp: row?.previousElementSibling }[event.key]
  if (!next) return
  event.preventDefault()
  next.querySelector('a')?.focus()
}

/** Rows beyond each edge, so that a fast scroll shows no gap. */
const BEYOND = 12

export interface RowsProps<T> {
  readonly items: readonly T[]
  readonly rowHeight: number
  readonly label: string
  readonly keyOf: (item: T) => string | number
  /** `place` counts from 0. */
  readonly render: (item: T, place: number) => ComponentChildren
}

export function Rows<T>({ items, rowHeight, label, keyOf, render }: RowsProps<T>): JSX.Element {
  const list = useRef<HTMLUListElement>(null)
  const [[first, end], setRange] = useState<readonly [number, number]>([0, 60])
  const update = (): void => {
    const top = list.current?.getBoundingClientRect().top ?? 0
    const from = Math.max(0, Math.floor(-top / rowHeight) - BEYOND)
    const to = Math.max(from, Math.ceil((innerHeight - top) / rowHeight)) + BEYOND
    setRange((last) => (last[0] === from && last[1] === to ? last : [from, to]))
  }
  useLayoutEffect(update, [items.length, rowHeight])
  useEffect(() => {
    addEventListener('scroll', update, { passive: true })
    addEventListener('resize', update)
    return () => {
      removeEventListener('scroll', update)
      removeEventListener('resize', update)
    }
  }, [rowHeight])
  const from = Math.min(first, items.length)
  return (
    <ul class="rows" ref={list} aria-label={label} style={{ height: `${items.length * rowHeight}px` }} onKeyDown={step}>
      {items.slice(from, end).map((item, at) => (
        <li
          key={keyOf(item)}
          aria-posinset={from + at + 1}
          aria-setsize={items.length}
          style={{ height: `${rowHeight}px`, top: `${(from + at) * rowHeight}px` }}
        >
          {render(item, from + at)}
        </li>
      ))}
    </ul>
  )
}
