// What k6 gives to every script and its types leave out.

declare const console: {
  log(...values: unknown[]): void
  error(...values: unknown[]): void
}
