// Find: one box above every page for ids, apps and pages, by `/` and ⌘K. What an id is, is known by asking.

import type { JSX } from 'preact'
import { useRef, useState } from 'preact/hooks'
import { useAsk } from '../api.ts'
import type { Usage } from '../api-types.ts'
import { UUID } from '../format.ts'
import { useLive } from '../live.tsx'
import { go, urlTo, type View } from '../route.ts'
import { AS_TYPED } from './controls.tsx'
import { Icon, type IconName } from './icons.tsx'
import { Dialog, List } from './ui.tsx'

const LATELY = 'sluice-found'
const MAX_LATELY = 5
const MAX_APPS = 5
const MAX_CHARACTERS = 256

interface Option {
  readonly group: string
  readonly icon: IconName
  readonly name: string
  readonly url: string
}

function lately(): readonly string[] {
  try {
    const known: unknown = JSON.parse(localStorage.getItem(LATELY) ?? '[]')
    return Array.isArray(known) ? known.filter((one) => typeof one === 'string').slice(0, MAX_LATELY) : []
  } catch {
    return []
  }
}

/** Beside what is typed, what it may be. */
function useOptions(text: string, views: readonly View[]): readonly Option[] {
  const { portal } = useLive()
  const apps = useAsk<Usage>(portal === null ? '/api/apps?top=1000' : null)
  const wanted = text.toLowerCase()
  // The portal has no search; an id is that of a batch, of a request, or a key.
  const pageOf = (id: string): string => (portal === null ? urlTo('/search', { q: id }) : urlTo('/batch', { id }))
  const isId = UUID.test(text)
  const mayAsk = text !== '' && (portal === null || isId)
  const ids = mayAsk ? [{ group: 'Any id', icon: 'find', name: text, url: pageOf(text) } as const] : []
  const fitting = (apps.value?.apps ?? []).filter(
    ({ app_id: id, name }) => wanted !== '' && `${id} ${name ?? ''}`.toLowerCase().includes(wanted),
  )
  return [
    ...(isId ? ids : []),
    ...fitting.slice(0, MAX_APPS).map(({ app_id: id }): Option => {
      return { group: 'Apps', icon: 'apps', name: id, url: urlTo('/app', { id }) }
    }),
    ...views
      .filter(({ name }) => name.toLowerCase().startsWith(wanted))
      .map(({ name, icon, path }): Option => ({ group: 'Pages', icon, name, url: path })),
    ...(isId ? [] : ids),
    ...(text === '' ? lately() : []).map((id): Option => {
      return { group: 'Looked up lately', icon: 'find', name: id, url: pageOf(id) }
    }),
  ]
}

export function Palette({ views, onClose }: { views: readonly View[]; onClose: () => void }): JSX.Element {
  const { portal } = useLive()
  const input = useRef<HTMLInputElement>(null)
  const [text, setText] = useState('')
  const [chosen, setChosen] = useState(0)
  const options = useOptions(text.trim(), views)
  const pick = (option: Option | undefined): void => {
    if (option === undefined) return
    if (option.group === 'Any id') {
      const kept = [option.name, ...lately().filter((one) => one !== option.name)].slice(0, MAX_LATELY)
      localStorage.setItem(LATELY, JSON.stringify(kept))
    }
    onClose()
    go(option.url)
  }
  const press = (event: KeyboardEvent): void => {
    if (event.key === 'Enter') return pick(options[chosen])
    const by = { ArrowDown: 1, ArrowUp: -1 }[event.key]
    if (by === undefined) return
    event.preventDefault()
    setChosen(Math.max(0, Math.min(options.length - 1, chosen + by)))
  }
  return (
    <Dialog label="Find" onClose={onClose}>
      <header>
        <Icon name="find" />
        <label for="find" class="reader">
          Find any id
        </label>
        <input
          id="find"
          ref={input}
          autofocus
          class="grow t14"
          style={{ border: 0, outline: 'none', background: 'none' }}
          placeholder={
            portal === null
              ? 'Batch, request, key, event or user id, or an app'
              : 'Batch id, request id or Idempotency-Key'
          }
          maxLength={MAX_CHARACTERS}
          {...AS_TYPED}
          value={text}
          onInput={(event) => {
            setText(event.currentTarget.value)
            setChosen(0)
          }}
          onKeyDown={press}
        />
        <kbd>esc</kbd>
      </header>
      <List columns="16px minmax(0,1fr) max-content">
        {options.map(({ group, icon, name, url }, place) => (
          <div key={group + name}>
            {options[place - 1]?.group !== group && <h3 style={{ padding: '10px var(--pad) 4px' }}>{group}</h3>}
            <a
              class="item"
              href={url}
              tabIndex={-1}
              aria-current={place === chosen || undefined}
              onClick={(event) => {
                event.preventDefault()
                pick(options[place])
              }}
            >
              <Icon name={icon} />
              <span class="cut">{name}</span>
              {place === chosen && <kbd>enter</kbd>}
            </a>
          </div>
        ))}
      </List>
      <div style={{ height: '8px' }} />
    </Dialog>
  )
}
