/** Stands for the token source of the application. */
export function serviceToken(): Promise<string> {
  return Promise.resolve('a token that is valid now');
}
