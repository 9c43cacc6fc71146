// Plots: the last minutes or hours of a figure, and the spark line of an hour.

import type { JSX } from 'preact'
import { useEffect, useRef, useState } from 'preact/hooks'
import uPlot from 'uplot'
import 'uplot/dist/uPlot.min.css'
import type { Plot as Cells } from './api-types.ts'
import { span, utc } from './format.ts'

const HEIGHT = 64

export interface PlotProps {
  readonly title: string
  readonly fromMs: number
  readonly stepMs: number
  readonly cells: Cells
  /** A colour of the style sheet. */
  readonly colour: string
  readonly format: (value: number) => string
}

/** The plots of a page share their cursor. */
export function Plot({ title, fromMs, stepMs, cells, colour, format }: PlotProps): JSX.Element {
  const place = useRef<HTMLDivElement>(null)
  const plot = useRef<uPlot | null>(null)
  const [at, setAt] = useState<number | null>(null)
  const times = cells.map((_, cell) => (fromMs + cell * stepMs) / 1000)
  const data: uPlot.AlignedData = [times, [...cells]]
  const newest = useRef(data)
  newest.current = data

  useEffect(() => {
    const element = place.current
    if (element === null) return
    const made = new uPlot(
      optionsOf(element, (cell) => setAt(cell)),
      newest.current,
      element,
    )
    plot.current = made
    const resize = new ResizeObserver(() => made.setSize({ width: element.clientWidth, height: HEIGHT }))
    resize.observe(element)
    const scheme = matchMedia('(prefers-color-scheme: dark)')
    const repaint = (): void => made.redraw(true, true)
    scheme.addEventListener('change', repaint)
    return () => {
      resize.disconnect()
      scheme.removeEventListener('change', repaint)
      made.destroy()
      plot.current = null
    }
  }, [colour])
  useEffect(() => plot.current?.setData(newest.current), [cells])

  const known = cells.filter((cell) => cell !== null)
  const highest = known.length === 0 ? null : Math.max(...known)
  const pointed = at === null ? null : cells[at]
  const length = span((cells.length * stepMs) / 1000)
  return (
    <>
      <div
        class="plot"
        ref={place}
        style={{ color: `var(${colour})` }}
        role="img"
        aria-label={`${title}, last ${length}${highest === null ? ': nothing known' : `: at most ${format(highest)}`}`}
      />
      <p class="foot">
        <span>{at === null ? length : `${utc(times[at] * 1000, 'time')} UTC`}</span>
        <span>
          {at === null ? highest !== null && `max ${format(highest)}` : pointed == null ? '–' : format(pointed)}
        </span>
      </p>
    </>
  )
}

/** In the element's colour. */
function optionsOf(element: HTMLElement, onCursor: (cell: number | null) => void): uPlot.Options {
  const paint = (): string => getComputedStyle(element).color
  const shade = (): string => `color-mix(in srgb, ${paint()} 13%, transparent)`
  return {
    width: element.clientWidth,
    height: HEIGHT,
    legend: { show: false },
    cursor: {
      sync: { key: 'now', setSeries: false },
      x: true,
      y: false,
      drag: { setScale: false, x: false, y: false },
      points: { size: 5 },
    },
    padding: [4, 0, 1, 0],
    axes: [{ show: false }, { show: false }],
    // A quiet plot is a line at the bottom, not one in the middle.
    scales: { y: { range: (_, __, highest) => [0, Math.max(highest ?? 0, 1e-6) * 1.05] } },
    series: [{}, { stroke: paint, fill: shade, width: 1.5, points: { show: false } }],
    hooks: { setCursor: [(plot) => onCursor(plot.cursor.idx ?? null)] },
  }
}

/** 60 numbers as bars, for a row of a list. */
export function Spark({ cells, label }: { cells: readonly number[]; label: string }): JSX.Element {
  const highest = Math.max(1, ...cells)
  const bars = cells.map((cell, at) => {
    const height = cell === 0 ? 0 : Math.max(1.5, (cell / highest) * 20)
    return `M${at * 2 + 1} 20V${20 - height}`
  })
  return (
    <svg class="spark" viewBox={`0 0 ${cells.length * 2} 20`} preserveAspectRatio="none" role="img" aria-label={label}>
      <path d={bars.join('')} />
    </svg>
  )
}
