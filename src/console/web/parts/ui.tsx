// The primitives as components. Text is always set as text.

import type { ButtonHTMLAttributes, ComponentChildren, CSSProperties, JSX } from 'preact'
import { useEffect, useRef, useState } from 'preact/hooks'
import { meaningOf, statusOf, type Tone, toneOf } from '../codes.ts'
import { age, exactly, hashOf } from '../format.ts'
import { useLive } from '../live.tsx'
import { urlTo } from '../route.ts'
import { Icon, type IconName } from './icons.tsx'

const HUES = 12

/** Custom properties of an element, such as the columns of a list. */
export function vars(values: Readonly<Record<string, string | number>>): CSSProperties {
  return Object.fromEntries(Object.entries(values).map(([name, value]) => [`--${name}`, value]))
}

export interface CardProps {
  readonly title?: ComponentChildren
  /** At the right of the title. */
  readonly side?: ComponentChildren
  readonly label?: string
  readonly class?: string
  readonly children?: ComponentChildren
}

export function Card({ title, side, label, class: name = '', children }: CardProps): JSX.Element {
  return (
    <section class={`card ${name}`} aria-label={label ?? (typeof title === 'string' ? title : undefined)}>
      {title !== undefined && (
        <header>
          {typeof title === 'string' ? <h2>{title}</h2> : title}
          {side !== undefined && <span class="row push">{side}</span>}
        </header>
      )}
      {children}
    </section>
  )
}

/** A list with its heads; a head that begins with `>` stands at the right, one with `-` is left out on a phone. */
export interface ListProps {
  readonly columns: string
  readonly phone?: string
  readonly heads?: readonly string[]
  readonly two?: boolean
  /** Without room at its sides. */
  readonly flush?: boolean
  readonly stick?: string
  readonly children: ComponentChildren
}

export function List({ columns, phone, heads, two = false, flush = false, stick, children }: ListProps): JSX.Element {
  const style = vars({ columns, ...(phone && { phone }), ...(stick && { stick }), ...(flush && { pad: '0px' }) })
  return (
    <div class={two ? 'list two' : 'list'} style={style}>
      {heads !== undefined && (
        <div class="head" aria-hidden="true">
          {heads.map((head) => (
            <span key={head} class={`${head.includes('>') ? 'number' : ''} ${head.includes('-') ? 'wide' : ''}`}>
              {head.replace(/^[->]+/, '')}
            </span>
          ))}
        </div>
      )}
      {children}
    </div>
  )
}

export function Pill({ code }: { code: string }): JSX.Element {
  const status = statusOf(code)
  return (
    <span class={`pill ${toneOf(status)}`} title={meaningOf(code)}>
      {status}
    </span>
  )
}

/** Words for what colour says. */
export function Dot({ tone, live = false }: { tone: Tone; live?: boolean }): JSX.Element {
  return <span class={`dot ${tone} ${live ? 'live' : ''}`} aria-hidden="true" />
}

export function hueOf(id: string): number {
  return hashOf(id) % HUES
}

/** A stable dot and the name; as a link it leads to the page of the app. */
export function AppName({ id, isLink = false }: { id: string | null; isLink?: boolean }): JSX.Element {
  if (id === null) return <span class="dim cut">no known app</span>
  const Tag = isLink ? 'a' : 'span'
  return (
    <Tag class="app" style={vars({ hue: hueOf(id) })} {...(isLink && { href: urlTo('/app', { id }) })}>
      <span class="dot" aria-hidden="true" />
      <span class="cut">{id}</span>
    </Tag>
  )
}

/** `ahead`: the share at the end of the window, if it goes on as it does. null: there is no limit. */
export function Bar({ share, ahead = 0, tone }: { share: number | null; ahead?: number; tone?: Tone | undefined }) {
  if (share === null) return <span class="bar none fill" aria-hidden="true" />
  const used = Math.min(1, share)
  const width = (part: number): CSSProperties => ({ width: `${part * 100}%` })
  return (
    <span class={`bar fill ${tone ?? ''}`} aria-hidden="true">
      <span class="used" style={width(used)} />
      <span class="ahead" style={width(Math.max(0, Math.min(1, ahead) - used))} />
    </span>
  )
}

/** How long ago; exactly on hover. */
export function Age({ at, ago = false }: { at: string; ago?: boolean }): JSX.Element {
  const { nowMs } = useLive()
  const text = age(at, nowMs)
  return (
    <time dateTime={at} title={exactly(at)}>
      {ago && /^\d/.test(text) ? `${text} ago` : text}
    </time>
  )
}

/** Names, and what they have; nothing of those that have nothing. */
export function Facts({ of, class: name = '' }: { of: Readonly<Record<string, ComponentChildren>>; class?: string }) {
  const known = Object.entries(of).filter(([, value]) => value)
  return (
    <dl class={`facts ${name}`}>
      {known.map(([fact, value]) => [
        <dt key={fact} class="dim">
          {fact}
        </dt>,
        <dd key={`${fact}:`}>{value}</dd>,
      ])}
    </dl>
  )
}

export function Stat({
  name,
  value,
  unit,
  tone,
}: {
  name: ComponentChildren
  value: string
  unit?: ComponentChildren
  tone?: Tone | undefined
}) {
  return (
    <div class="stack" style={vars({ gap: '2px' })}>
      <span class="label">{name}</span>
      <span class={tone === undefined ? 'figure' : `figure said ${tone}`}>
        {value}
        {unit !== undefined && <small> {unit}</small>}
      </span>
    </div>
  )
}

/** The answer of a page in a sentence, and what proves it. */
export function Verdict({
  tone,
  children,
  more,
}: {
  tone?: Tone
  children: ComponentChildren
  more?: ComponentChildren
}) {
  return (
    <div class="stack verdict" style={vars({ gap: '2px' })}>
      <p class={tone === 'fail' ? 'figure said fail' : 'figure'}>{children}</p>
      {more && <p class="t14 mid">{more}</p>}
    </div>
  )
}

/** At the side of a card: where all of it is. */
export function More({ href, children }: { href: string; children: ComponentChildren }): JSX.Element {
  return (
    <a class="t12" href={href}>
      {children}
    </a>
  )
}

interface ButtonProps extends Omit<ButtonHTMLAttributes, 'icon'> {
  readonly text?: ComponentChildren
  readonly kind?: string
  readonly icon?: IconName
  /** Of a link that looks like a button. */
  readonly href?: string
}

export function Button({ text, kind = '', icon, href, ...attributes }: ButtonProps): JSX.Element {
  const content = [icon && <Icon key="icon" name={icon} />, text]
  return href === undefined ? (
    <button type="button" class={`button ${kind}`} {...attributes}>
      {content}
    </button>
  ) : (
    <a class={`button ${kind}`} href={href}>
      {content}
    </a>
  )
}

/** From what is opened, where it stands in the place of its list. */
export function Back({ label, onClose }: { label: string; onClose: () => void }): JSX.Element | null {
  return useMedia(WIDE) ? null : <Button kind="small bare" icon="back" aria-label={label} onClick={onClose} />
}

export function Empty({ icon, title, children }: { icon?: IconName; title: string; children?: ComponentChildren }) {
  return (
    <div class="empty">
      {icon !== undefined && <Icon name={icon} />}
      <h2>{title}</h2>
      {children}
    </div>
  )
}

export function Note({ tone = 'near', children }: { tone?: Tone; children: ComponentChildren }): JSX.Element {
  return (
    <div class={`note ${tone}`}>
      <span class="said">
        <Icon name={tone === 'ok' ? 'check' : 'warning'} />
      </span>
      {children}
    </div>
  )
}

export function Problem({ why }: { why: string | null }): JSX.Element | null {
  return why === null ? null : (
    <div role="alert">
      <Note>
        <span class="grow">{why}</span>
      </Note>
    </div>
  )
}

/** A dialog above the page while it is in the document; Escape closes it, and the focus goes back. */
export function Dialog({
  label,
  onClose,
  children,
}: {
  label: string
  onClose: () => void
  children: ComponentChildren
}) {
  const dialog = useRef<HTMLDialogElement>(null)
  useEffect(() => {
    const element = dialog.current
    element?.showModal()
    return () => element?.close()
  }, [])
  const close = (event: MouseEvent): void => {
    if (event.target === dialog.current) onClose()
  }
  return (
    <dialog ref={dialog} class="card" aria-label={label} onClose={onClose} onClick={close}>
      {children}
    </dialog>
  )
}

/** Whether a media query holds. */
export function useMedia(query: string): boolean {
  const [holds, setHolds] = useState(() => matchMedia(query).matches)
  useEffect(() => {
    const list = matchMedia(query)
    const update = (): void => setHolds(list.matches)
    update()
    list.addEventListener('change', update)
    return () => list.removeEventListener('change', update)
  }, [query])
  return holds
}

export const PHONE = '(max-width: 720px)'
/** There is room for what is opened beside its list. */
export const WIDE = '(min-width: 861px)'
