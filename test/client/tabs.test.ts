import { describe, expect, it } from 'vitest'
import { createPage } from './support/page.ts'
import { createRig, DatedTimers, mapStore, waiting } from './support/rig.ts'

const SECOND_MS = 1000

/** Web Locks as browsers have them: one holder a name, then the next that asked. */
function webLocks(): LockManager {
  const waitingFor: (() => Promise<void>)[] = []
  const next = (): void => void waitingFor[0]?.()
  return {
    request(_name: string, { signal }: { signal: AbortSignal }, task: () => Promise<void>) {
      return new Promise<void>((resolve, reject) => {
        const entry = async (): Promise<void> => {
          await task()
          waitingFor.shift()
          resolve()
          next()
        }
        signal.addEventListener('abort', () => {
          const place = waitingFor.indexOf(entry)
          if (place > 0) {
            waitingFor.splice(place, 1)
            reject(new DOMException('aborted', 'AbortError'))
          }
        })
        if (waitingFor.push(entry) === 1) next()
      })
    },
  } as unknown as LockManager
}

describe.each([
  ['Web Locks', () => webLocks()],
  ['a lease', () => null],
])('two tabs with %s', (_, makeLocks) => {
  function createTabs() {
    const timers = new DatedTimers()
    const locks = makeLocks()
    const store = mapStore()
    const pages = [createPage(), createPage()]
    const first = createRig({ timers, locks, store, page: pages[0] })
    const second = createRig({ timers, locks, store, page: pages[1], double: first.double })
    return { timers, store, pages, first, second, double: first.double }
  }

  it('store all events once, sent by one of them', async () => {
    const { timers, pages, first, second, double, store } = createTabs()
    for (let round = 0; round < 20; round++) {
      first.client.track(`first ${round}`)
      second.client.track(`second ${round}`)
      await timers.pass(SECOND_MS)
    }
    expect(waiting(store).length).toBeGreaterThan(0)
    pages[0].fire('window', 'storage')
    await timers.pass(3 * SECOND_MS)
    pages[0].fire('window', 'storage')
    await timers.pass(3 * SECOND_MS)
    expect(new Set(double.storedIds())).toEqual(new Set([...first.tracked, ...second.tracked]))
    expect(double.requests).toHaveLength(double.stored.size)
    expect(waiting(store)).toEqual([])
  })

  it('the other sends what waits when the first closes', async () => {
    const { timers, first, second, double } = createTabs()
    second.client.track('signup')
    await timers.pass(4 * SECOND_MS)
    expect(double.storedIds()).toHaveLength(0)
    await first.client.close()
    await timers.pass(6 * SECOND_MS)
    expect(double.storedIds()).toHaveLength(1)
  })

  it('the one that does not send still hands over its own at its end', async () => {
    const { timers, second, double, pages } = createTabs()
    second.client.track('signup')
    pages[1].end()
    expect(pages[1].beacons).toHaveLength(1)
    expect(double.storedIds()).toHaveLength(0)
    await timers.pass(0)
  })

  it('opting out in one tab holds in the other', async () => {
    const { first, second, double } = createTabs()
    first.client.optOut()
    second.client.track('signup')
    await second.client.flush()
    expect(double.requests).toHaveLength(0)
    expect(second.dropped).toMatchObject([{ reason: 'consent' }])
  })
})

describe('two that send at once, because the lock failed them', () => {
  it('store each event once, though the batch was refused and sealed anew', async () => {
    const timers = new DatedTimers()
    const store = mapStore()
    const away = createRig({ timers, store })
    away.double.always('unreachable')
    away.client.track('good')
    away.client.track('bad', { bad: 'name' })
    await away.client.close()
    const first = createRig({ timers, store })
    const second = createRig({ timers, store, double: first.double })
    await timers.pass(SECOND_MS)
    expect(first.double.requests.length).toBeGreaterThan(2)
    expect(first.double.storedIds()).toEqual([away.tracked[0]])
    expect([...first.dropped, ...second.dropped]).toMatchObject([{ reason: 'invalid', names: ['bad'] }])
  })
})

describe('a lease', () => {
  it('of a tab that was killed ends after 15 s', async () => {
    const timers = new DatedTimers()
    const store = mapStore(new Map([['lease', `gone ${timers.nowMs() + 14_000}`]]))
    const { client, double } = createRig({ timers, store, locks: null })
    client.track('signup')
    await timers.pass(10 * SECOND_MS)
    expect(double.requests).toHaveLength(0)
    await timers.pass(10 * SECOND_MS)
    expect(double.storedIds()).toHaveLength(1)
  })

  it('that was written by a clock that has been set back is no lease', async () => {
    const timers = new DatedTimers()
    const store = mapStore(new Map([['lease', `gone ${timers.nowMs() + 1e9}`]]))
    const { client, double } = createRig({ timers, store, locks: null })
    client.track('signup')
    await client.flush()
    expect(double.storedIds()).toHaveLength(1)
  })
})
