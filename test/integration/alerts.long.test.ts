// Alerts of a node over Redis and NATS: decided from the stream, stored in a bucket, told once, and read again.

import { randomUUID } from 'node:crypto'
import { expect, it } from 'vitest'
import { get, post, send, single } from '../support/client.ts'
import { startCluster } from '../support/cluster.ts'
import { type EventStream, openEventStream } from '../support/event-stream.ts'
import { appRecord, eventually, runCommand, type Service } from '../support/service.ts'

/** Two decisions are 15 s apart; a busy machine gets more. */
const DECIDED_MS = 45_000
const SHOP = appRecord('shop', { events_per_day: 10, alerts: [50] })
const OTHER = appRecord('other', { events_per_day: 10, alerts: [50] })

async function shownBy(node: Service, query = ''): Promise<{ status: number; alerts: Record<string, unknown>[] }> {
  const { status, json } = await get(node.adminPort, `/api/alerts${query}`)
  return { status, alerts: (json['alerts'] ?? []) as Record<string, unknown>[] }
}

function toldBy(node: Service, text: string): string[] {
  return node
    .output()
    .split('\n')
    .filter((line) => line.includes(text))
}

function alertsIn({ events }: EventStream): unknown[] {
  return events.filter(({ event }) => event === 'alert')
}

const messagesOf = (alerts: readonly Record<string, unknown>[]) =>
  alerts.map((data) => ({ event: 'alert', data, id: data['id'] }))

it('are in the log and in the API of all apps once, after a restart too, and come live from either node', {
  timeout: 150_000,
}, async (context) => {
  const cluster = await startCluster({ nodes: 1, apps: [SHOP, OTHER], env: { SLUICE_PORTAL_PORT: '0' } })
  context.onTestFinished(() => cluster.stop())
  const [first] = cluster.nodes
  expect(await shownBy(first)).toEqual({ status: 200, alerts: [] })
  const readers = await Promise.all(
    ['shop', 'other'].map(async (app) => {
      const { stdout } = await runCommand(['apps', 'read-key', app], cluster.commandEnv)
      return { Authorization: `Bearer ${stdout.split('\n')[0]}` }
    }),
  )
  await eventually('the read keys are known', async () => {
    const answers = readers.map((headers) =>
      send({ port: first.portalPort }, { method: 'GET', path: '/api/session', headers }),
    )
    return (await Promise.all(answers)).every(({ status }) => status === 200)
  })
  const live = [
    await openEventStream(first.adminPort, '/api/alerts/stream'),
    await openEventStream(first.portalPort, '/api/alerts/stream', readers[0]),
  ]
  const ofOthers = [
    await openEventStream(first.adminPort, '/api/alerts/stream?app=other'),
    await openEventStream(first.portalPort, '/api/alerts/stream?app=shop', readers[1]),
  ]

  for (let sent = 0; sent < 5; sent++) expect((await post(first, single('ak_shop'))).status).toBe(202)
  expect((await post(first, single('ak_other'))).status).toBe(202)
  await eventually('the alert is shown', async () => (await shownBy(first)).alerts.length > 0, DECIDED_MS)
  const { alerts } = await shownBy(first)
  const step = { app_id: 'shop', kind: 'step', state: 'raised', window: 'day', percent: 50, used: 5, limit: 10 }
  expect(alerts).toEqual([expect.objectContaining(step)])
  expect(await shownBy(first, '?app=shop')).toEqual({ status: 200, alerts })
  expect(await shownBy(first, '?app=other')).toEqual({ status: 200, alerts: [] })
  expect(await shownBy(first, '?app=*')).toEqual({ status: 200, alerts: [] })
  const line = 'app shop has used 50% of its day: 5 of 10 events'
  await eventually('it is in the log', () => toldBy(first, line).length > 0)

  const [message] = messagesOf(alerts)
  await eventually('it came live', () => live.every((stream) => alertsIn(stream).length > 0))
  expect(live.map(alertsIn)).toEqual([[message], [message]])
  expect(ofOthers.map(alertsIn)).toEqual([[], []])
  await first.stop()
  const [second, third] = [await cluster.addNode(), await cluster.addNode()]
  expect(await shownBy(second)).toEqual({ status: 200, alerts })
  const known = { 'Last-Event-ID': String(alerts[0]['id']) }
  const either = [
    await openEventStream(second.adminPort, '/api/alerts/stream', known),
    await openEventStream(third.adminPort, '/api/alerts/stream', known),
  ]
  for (let sent = 0; sent < 5; sent++) expect((await post(second, single('ak_other'))).status).toBe(202)
  await eventually('the next alert is shown', async () => (await shownBy(second)).alerts.length > 1, DECIDED_MS)
  const later = await shownBy(second)
  expect(later.alerts).toEqual([...alerts, expect.objectContaining({ ...step, app_id: 'other', used: 6 })])
  const next = messagesOf(later.alerts.slice(1))
  await eventually('it came from both', () => either.every((stream) => alertsIn(stream).length > 0))
  expect(either.map(alertsIn)).toEqual([next, next])
  expect([second, third].flatMap((node) => toldBy(node, 'app other has used 50%')).length).toBe(1)
  const again = await openEventStream(third.adminPort, '/api/alerts/stream', known)
  await eventually('what came since is sent again', () => alertsIn(again).length > 0)
  expect(alertsIn(again)).toEqual(next)
  expect([toldBy(first, line).length, toldBy(second, line).length]).toEqual([1, 0])

  // The id of another app's alert is as good as one that nobody has.
  const ofPortal = (id: unknown) => {
    const path = `/api/alerts?after=${String(id)}`
    return send({ port: third.portalPort }, { method: 'GET', path, headers: readers[0] })
  }
  const [foreign, nobodys] = [await ofPortal(later.alerts[1]['id']), await ofPortal(randomUUID())]
  expect([foreign.status, foreign.json]).toEqual([200, { alerts, more: false }])
  expect(foreign.text).toBe(nobodys.text)
  const cursor = { ...readers[0], 'Last-Event-ID': String(later.alerts[1]['id']) }
  const stream = await openEventStream(third.portalPort, '/api/alerts/stream', cursor)
  await eventually('its own are sent', () => alertsIn(stream).length > 0)
  expect(alertsIn(stream)).toEqual([message])
})
