// Why a search for one batch has not found it. A file of its own, since the pages import it, which have no Node.

/**
 * stopped: the time was over before all was read. empty: so is the queue. future: the id says that it was made in the
 * future. expired: it was made before anything that the queue still has. narrowed: the queue has more than the times
 * that were asked for. absent: all that may hold it was read.
 */
export type NotFoundReason = 'stopped' | 'empty' | 'future' | 'expired' | 'narrowed' | 'absent'
