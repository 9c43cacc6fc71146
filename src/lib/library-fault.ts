// Tells what a client library left undone, such as a promise that it made and dropped, from a bug of ours.

export type Library = 'ioredis' | 'nats'
/** How many each has made. */
export type LibraryFaults = Record<Library, number>

/** By the folder in node_modules, with what each library is made of. */
const LIBRARY_OF: Readonly<Record<string, Library>> = {
  ioredis: 'ioredis',
  '@ioredis': 'ioredis',
  'cluster-key-slot': 'ioredis',
  denque: 'ioredis',
  'redis-errors': 'ioredis',
  'redis-parser': 'ioredis',
  'standard-as-callback': 'ioredis',
  '@nats-io': 'nats',
}

/** Frames are kept to the end: one of ours may be the last. */
export const STACK_FRAMES = 50

/**
 * The library that threw an error which nobody caught, where nothing but its own code and Node's is on the stack. null: code of ours may be to
 * blame. An error reply is the answer to a call of ours, whoever makes the error of it.
 */
export function libraryAtFault(error: unknown): Library | null {
  if (!(error instanceof Error) || error.name === 'ReplyError') return null
  const frames = (error.stack ?? '').split('\n').filter((line) => /^ +at /.test(line))
  if (frames.length >= Error.stackTraceLimit) return null
  const libraries = new Set(frames.filter((frame) => !/node:|<anonymous>\)?$/.test(frame)).map(libraryOf))
  const [library = null] = libraries
  return libraries.size === 1 ? library : null
}

/** Of a line of a stack; null: none of these. The package itself may lie in a node_modules. */
function libraryOf(frame: string): Library | null {
  const folder = /.*[\\/]node_modules[\\/]([^\\/]+)/.exec(frame)?.[1] ?? ''
  return Object.hasOwn(LIBRARY_OF, folder) ? LIBRARY_OF[folder] : null
}
