/** From wherever tokens come from. */
export function serviceToken(): Promise<string> {
  return Promise.resolve('a token that is valid now');
}
