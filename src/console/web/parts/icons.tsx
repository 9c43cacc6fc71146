// Drawn signs, each on 16 units with one line of 1.5. A word or a label always says the same.

import type { JSX } from 'preact'

const PATHS = {
  now: 'M2 9h3l2-5 3 9 2-4h2',
  events: 'M2.5 4h11M2.5 8h11M2.5 12h7',
  refused: 'M8 14A6 6 0 1 0 8 2a6 6 0 0 0 0 12ZM4 4l8 8',
  batch: 'M8 1.8 13.5 5v6L8 14.2 2.5 11V5ZM2.7 5.2 8 8.2l5.3-3M8 8.2v6',
  apps: 'M2.5 2.5h4.5v4.5H2.5zM9 2.5h4.5v4.5H9zM2.5 9h4.5v4.5H2.5zM9 9h4.5v4.5H9z',
  explain: 'M6 3 2 8l4 5M10 3l4 5-4 5',
  overview: 'M3 13V8M6.3 13V3M9.7 13V6M13 13V4',
  find: 'M7 12A5 5 0 1 0 7 2a5 5 0 0 0 0 10ZM11 11l3 3',
  filter: 'M2 3.5h12L9.5 9v4l-3-1.5V9z',
  pause: 'M5.5 3v10M10.5 3v10',
  resume: 'M4.5 3v10l8-5z',
  close: 'M4 4l8 8M12 4l-8 8',
  check: 'M3 8.5l3.2 3.2L13 5',
  copy: 'M5.5 5.5h8v8h-8zM10.5 5.5v-3h-8v8h3',
  link: 'M6.5 9.5l3-3M7 4.5 8.5 3a3.2 3.2 0 0 1 4.5 4.5L11.5 9M9 11.5 7.5 13A3.2 3.2 0 0 1 3 8.5L4.5 7',
  download: 'M8 2v8M4.5 7 8 10.5 11.5 7M2.5 13.5h11',
  up: 'M8 13V3.5M4 7l4-4 4 4',
  back: 'M13 8H3.5M7 4 3 8l4 4',
  warning: 'M8 2.2 14.5 13.5h-13ZM8 6.5v3.2M8 11.6v.1',
  user: 'M8 8a2.8 2.8 0 1 0 0-5.6A2.8 2.8 0 0 0 8 8ZM2.8 14c.5-2.8 2.6-4 5.2-4s4.7 1.2 5.2 4',
  leave: 'M6 2.5H2.8v11H6M10 5l3 3-3 3M13 8H6',
  theme: 'M13.5 9.5A6 6 0 0 1 6.5 2.5a6 6 0 1 0 7 7Z',
} as const

export type IconName = keyof typeof PATHS

export function Icon({ name }: { name: IconName }): JSX.Element {
  return (
    <svg class="icon" viewBox="0 0 16 16" aria-hidden="true">
      <path d={PATHS[name]} />
    </svg>
  )
}

export function Mark(): JSX.Element {
  return (
    <svg width="24" height="24" viewBox="0 0 24 24" aria-hidden="true">
      <rect width="24" height="24" rx="6" fill="var(--solid)" />
      <path d="M5 8h14M5 12h14M5 16h7" stroke="var(--on-solid)" stroke-width="2.2" stroke-linecap="round" />
    </svg>
  )
}
