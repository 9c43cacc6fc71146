// What may happen to the machine of a journal.

export type DiskStep =
  /** The process dies, or the machine's power fails, while the disk works on so many operations from now. */
  | { readonly kind: 'process killed' | 'power cut'; readonly operations: number; readonly forMs: number }
  /** As by SIGTERM. */
  | { readonly kind: 'process stopped'; readonly forMs: number }
  | { readonly kind: 'disk slow'; readonly extraMs: number; readonly forMs: number }
  | { readonly kind: 'disk full'; readonly freeBytes: number; readonly forMs: number }
  /** This share of all writes and syncs ends with EIO. */
  | { readonly kind: 'disk fails'; readonly share: number; readonly forMs: number }
  /** The disk says of writes that they are durable, and forgets them at a power cut. */
  | { readonly kind: 'sync lies'; readonly forMs: number }
  /** Another program appends them to the open segment of a running process. */
  | { readonly kind: 'stray bytes'; readonly text: string }
  /** Another program cuts the open segment of a running process off, at this share of it: logrotate's `copytruncate` at 0. */
  | { readonly kind: 'segment cut'; readonly share: number }
  /** One bit of a segment, or of what lies beside it, changes. */
  | { readonly kind: 'bit flips' }

/** Those that may lose what was stored. */
export function isLossy({ kind }: { readonly kind: string }): boolean {
  return kind === 'sync lies' || kind === 'bit flips'
}
