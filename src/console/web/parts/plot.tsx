// One plot for all: areas on each other, lines, or bars, with the values of the moment under the pointer. Drawn as SVG in the
// tones of the style sheet, so that both colour schemes are the same drawing.

import type { JSX } from 'preact'
import { useId, useState } from 'preact/hooks'
import { short } from '../format.ts'
import { vars } from './ui.tsx'

export interface Series {
  readonly name: string
  /** A tone of the style sheet. */
  readonly tone: string
  /** Oldest first; null: not known. */
  readonly cells: readonly (number | null)[]
}

export type Pointer = readonly [at: number | null, onAt: (cell: number | null) => void]

export interface PlotProps {
  readonly label: string
  readonly kind: 'areas' | 'lines' | 'bars'
  readonly series: readonly Series[]
  /** Below, from left to right. */
  readonly times: readonly string[]
  readonly nameOf: (cell: number) => string
  readonly format: (value: number) => string
  /** The cell under the pointer, where plots beside each other share it. */
  readonly pointer?: Pointer
  readonly height?: number
  /** Cells before this one are of another time. */
  readonly paleBefore?: number
}

const HEIGHT = 100
/** Wider than this a tip at the right of the cross would leave the plot. */
const TIP_FITS = 0.6
const TABLE_ROWS = 12

/** A round number that is at least this, and not much more, so that the plot fills its place. Half of it is round too. */
export function roundUp(value: number): number {
  if (value <= 0) return 1
  const power = 10 ** Math.floor(Math.log10(value))
  return (
    [1, 1.2, 1.6, 2, 2.4, 3, 4, 5, 6, 8, 10].map((step) => step * power).find((step) => step >= value) ?? 10 * power
  )
}

export function Plot(props: PlotProps): JSX.Element {
  const { label, kind, series, times, format, height = 168 } = props
  const own = useState<number | null>(null)
  const [at, onAt] = props.pointer ?? own
  const length = series[0]?.cells.length ?? 0
  const heights = Array.from({ length }, (_, cell) => {
    const values = series.map(({ cells }) => cells[cell] ?? 0)
    return kind === 'lines' ? Math.max(...values) : values.reduce((sum, value) => sum + value, 0)
  })
  const most = roundUp(Math.max(0, ...heights))
  const point = (event: PointerEvent): void => {
    const box = (event.currentTarget as Element).getBoundingClientRect()
    const cell = Math.floor(((event.clientX - box.left) / box.width) * length)
    onAt(Math.max(0, Math.min(length - 1, cell)))
  }
  return (
    <figure class="plot" aria-label={label} style={vars({ height: `${height}px` })}>
      <div class="stack spread number" style={{ lineHeight: 0 }} aria-hidden="true">
        {[most, most / 2, 0].map((value) => (
          <span key={value}>{short(value)}</span>
        ))}
      </div>
      <div class="area" onPointerMove={point} onPointerDown={point} onPointerLeave={() => onAt(null)}>
        <svg viewBox={`0 0 ${length} ${HEIGHT}`} preserveAspectRatio="none" aria-hidden="true">
          {kind === 'bars' ? <Bars {...props} most={most} /> : <Shapes {...props} most={most} />}
        </svg>
        {at !== null && at < length && <Tip {...props} at={at} length={length} />}
      </div>
      <div class="times row spread" aria-hidden="true">
        {times.map((time) => (
          <span key={time}>{time}</span>
        ))}
      </div>
      <Values {...props} length={length} format={format} />
    </figure>
  )
}

type Drawn = PlotProps & { readonly most: number }

/** The upper edge of each series, in runs of cells that are known. */
function Shapes({ kind, series, most }: Drawn): JSX.Element {
  const length = series[0]?.cells.length ?? 0
  const below = Array.from({ length }, () => 0)
  const y = (value: number): string => (HEIGHT - (value / most) * HEIGHT).toFixed(2)
  const x = (cell: number): number => (length < 2 ? 0 : (cell / (length - 1)) * length)
  return (
    <>
      {series.map(({ name, tone, cells }, order) => {
        const base = [...below]
        const tops = cells.map((value, cell) => (kind === 'lines' ? (value ?? 0) : base[cell] + (value ?? 0)))
        if (kind === 'areas') for (let cell = 0; cell < length; cell++) below[cell] = tops[cell]
        const runs = runsOf(cells)
        const edge = runs.map((run) => `M${run.map((cell) => `${x(cell).toFixed(2)} ${y(tops[cell])}`).join('L')}`)
        const area = runs.map((run, at) => {
          const back = run.toReversed().map((cell) => `${x(cell).toFixed(2)} ${y(base[cell])}`)
          return `${edge[at]}L${back.join('L')}Z`
        })
        return (
          <g key={name} class={tone}>
            {kind === 'areas' && <path class={order === 0 ? 'drawn ground' : 'drawn'} d={area.join('')} />}
            {(kind === 'lines' || order === 0) && <path class="drawn stroke" d={edge.join('')} />}
          </g>
        )
      })}
    </>
  )
}

function runsOf(cells: readonly (number | null)[]): number[][] {
  const runs: number[][] = [[]]
  for (const [cell, value] of cells.entries()) {
    if (value === null) runs.push([])
    else runs.at(-1)?.push(cell)
  }
  return runs.filter((run) => run.length > 0)
}

function Bars({ series, most, paleBefore = 0 }: Drawn): JSX.Element {
  const below = (order: number, cell: number): number =>
    series.slice(0, order).reduce((sum, { cells }) => sum + (cells[cell] ?? 0), 0)
  const bar = (order: number, cell: number, value: number): string => {
    const height = Math.max(value > 0 ? 1 : 0, (value / most) * HEIGHT)
    const foot = HEIGHT - (below(order, cell) / most) * HEIGHT
    return `M${cell + 0.1} ${foot.toFixed(2)}v${(-height).toFixed(2)}h.8v${height.toFixed(2)}z`
  }
  const pathOf = (order: number, isPale: boolean): string =>
    series[order].cells
      .map((value, cell) => (value === null || cell < paleBefore !== isPale ? '' : bar(order, cell, value)))
      .join('')
  return (
    <>
      {series.map(({ name, tone }, order) => (
        <g key={name} class={tone}>
          <path class="drawn" d={pathOf(order, false)} />
          {paleBefore > 0 && <path class="drawn pale" d={pathOf(order, true)} />}
        </g>
      ))}
    </>
  )
}

function Tip({ series, nameOf, format, at, length, kind }: PlotProps & { at: number; length: number }): JSX.Element {
  const place = kind === 'bars' ? (at + 0.5) / length : at / Math.max(1, length - 1)
  return (
    <div style={vars({ at: `${place * 100}%` })}>
      <div class="cross" />
      <div class={place > TIP_FITS ? 'tip card left' : 'tip card'}>
        <div class="dim">{nameOf(at)}</div>
        {series.map(({ name, tone, cells }) => (
          <div key={name} class="row">
            <span class={`dot ${tone}`} />
            {name}
            <b class="push">{cells[at] === null ? '–' : format(cells[at] ?? 0)}</b>
          </div>
        ))}
      </div>
    </div>
  )
}

/** Some of the values as a table, for who cannot see the plot. */
function Values({ label, series, nameOf, format, length }: PlotProps & { length: number }): JSX.Element {
  const step = Math.max(1, Math.ceil(length / TABLE_ROWS))
  const rows = Array.from({ length: Math.ceil(length / step) }, (_, row) => row * step)
  return (
    <div class="reader">
      <table>
        <caption>{label}</caption>
        <thead>
          <tr>
            <th scope="col">Time</th>
            {series.map(({ name }) => (
              <th key={name} scope="col">
                {name}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {rows.map((cell) => (
            <tr key={cell}>
              <th scope="row">{nameOf(cell)}</th>
              {series.map(({ name, cells }) => (
                <td key={name}>{cells[cell] === null ? 'not known' : format(cells[cell] ?? 0)}</td>
              ))}
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  )
}

/** The minutes of an hour as bars, for a row of a list. */
export function Spark({ cells, label, tone }: { cells: readonly number[]; label: string; tone: string }): JSX.Element {
  const id = useId()
  const highest = Math.max(1, ...cells)
  const bars = cells.map(
    (cell, at) => `M${at + 0.5} 20V${20 - (cell === 0 ? 0.8 : Math.max(2, (cell / highest) * 20))}`,
  )
  return (
    <svg
      class={tone}
      width="100%"
      height="20"
      viewBox={`0 0 ${cells.length} 20`}
      preserveAspectRatio="none"
      role="img"
      aria-labelledby={id}
    >
      <title id={id}>{label}</title>
      <path d={bars.join('')} stroke="var(--tone-fill)" stroke-width=".7" />
    </svg>
  )
}

/** What a colour of a plot stands for. */
export function Swatch({ name, tone }: { name: string; tone: string }): JSX.Element {
  return (
    <span class="row" style={vars({ gap: '6px' })}>
      <span class={`dot ${tone}`} aria-hidden="true" />
      {name}
    </span>
  )
}
