// Joins the consoles of the other nodes, over NATS.

import { randomBytes } from 'node:crypto'
import { systemTimers } from '../../lib/timers.ts'
import type { NatsAccess } from '../../nats/address.ts'
import { Peers } from '../../nats/peers.ts'
import type { OwnInquiries } from '../inquiries.ts'
import type { OwnAnswers } from '../questions.ts'
import { Cluster } from './cluster.ts'
import { Leases, type LiveSources, RemoteWatches } from './remote-watch.ts'

const ID_BYTES = 6

interface Asked {
  readonly own: OwnAnswers | null
  readonly inquiries: OwnInquiries | null
  readonly onFault: (error: unknown) => void
}

/** Over a connection of its own, so that what people look at never waits before what is stored. */
export function joinOthers(nats: NatsAccess, { own, inquiries, onFault }: Asked) {
  const id = randomBytes(ID_BYTES).toString('hex')
  const timers = systemTimers
  const peers: Peers = new Peers({ nats, onFault, onUp: () => cluster.up() })
  const cluster: Cluster = new Cluster({ peers, own, ownInquiries: inquiries, id, timers, onFault })
  const watches = new RemoteWatches({ peers, id, timers })
  cluster.start()
  const stop = async (): Promise<void> => {
    watches.stop()
    cluster.stop()
    await peers.stop()
  }
  const lease = (live: LiveSources): Leases => new Leases({ peers, id, timers, ...live })
  return { cluster, watches, lease, stop }
}
