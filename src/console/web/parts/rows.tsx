// A long list in the page: only the rows in sight are in the document, so that thousands scroll smoothly.

import type { ComponentChildren, JSX } from 'preact'
import { useEffect, useLayoutEffect, useRef, useState } from 'preact/hooks'
import { useKeys } from '../keys.ts'

/** Further down than this a list is being read. */
const AT_TOP_PX = 24

/** No list moves then: a row would not be the one that is clicked. A finger does not hover. */
export function isAimedAt(): boolean {
  const pointed = matchMedia('(hover: hover)').matches ? '.rows:hover, .rows:focus-within' : '.rows:focus-within'
  return document.querySelector(pointed) !== null
}

/** Where lists scroll: the page, or a part of it that fills the window. */
export function scroller(): Element | null {
  const inside = document.querySelector('.scroll')
  return inside !== null && getComputedStyle(inside).overflowY === 'auto' ? inside : document.scrollingElement
}

export function isScrolled(): boolean {
  return (scroller()?.scrollTop ?? 0) > AT_TOP_PX
}

/** j, k and the arrows go from row to row, past the lines between them. */
function step(by: 'nextElementSibling' | 'previousElementSibling'): void {
  const focused = document.activeElement?.closest('.rows > li')
  if (!focused) {
    const first = document.querySelector<HTMLElement>('.rows a[aria-current]') ?? document.querySelector('.rows a.item')
    if (first instanceof HTMLElement) first.focus()
    return
  }
  let row = focused[by]
  while (row !== null && row.querySelector('a.item') === null) row = row[by]
  row?.querySelector<HTMLElement>('a.item')?.focus()
}

export function useRowKeys(): void {
  const next = (): void => step('nextElementSibling')
  const last = (): void => step('previousElementSibling')
  useKeys({ j: next, k: last, ArrowDown: next, ArrowUp: last })
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
    // Captured: that of a part of the page does not rise.
    addEventListener('scroll', update, { passive: true, capture: true })
    addEventListener('resize', update)
    return () => {
      removeEventListener('scroll', update, { capture: true })
      removeEventListener('resize', update)
    }
  }, [rowHeight])
  const from = Math.min(first, items.length)
  return (
    <ul class="rows" ref={list} aria-label={label} style={{ height: `${items.length * rowHeight}px` }}>
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
