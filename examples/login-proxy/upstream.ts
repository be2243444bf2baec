import {
  allowInsecureRequests,
  authorizationCodeGrant,
  buildAuthorizationUrl,
  calculatePKCECodeChallenge,
  ClientSecretBasic,
  type Configuration,
  discovery,
  randomNonce,
  randomPKCECodeVerifier,
  randomState,
} from 'openid-client';

export interface UpstreamOptions {
  readonly issuer: string;
  readonly clientId: string;
  readonly clientSecret: string;
}

interface Login {
  readonly state: string;
  readonly nonce: string;
  readonly verifier: string;
}

const MOST_LOGINS = 10_000;

// #region upstream
/** The identity provider, which knows the proxy as a client, and asks who the user is. */
export class Upstream {
  /**
   * The logins that have begun, by interaction. Each is used once, and the oldest are
   * dropped. With several nodes, keep them in Redis.
   */
  readonly #logins = new Map<string, Login>();
  readonly #interactions = new Map<string, string>();

  private constructor(
    private readonly config: Configuration,
    private readonly callbackUrl: string,
  ) {}

  static async discover(
    { issuer, clientId, clientSecret }: UpstreamOptions,
    callbackUrl: string,
  ): Promise<Upstream> {
    const url = new URL(issuer);
    // The identity provider of this example has no TLS. The discovery fails for any other
    // without TLS.
    // oxlint-disable-next-line typescript/no-deprecated
    const insecure = { execute: [allowInsecureRequests] };
    const local = url.hostname === '127.0.0.1' ? insecure : {};
    const auth = ClientSecretBasic(clientSecret);
    return new Upstream(
      await discovery(url, clientId, undefined, auth, local),
      callbackUrl,
    );
  }

  /**
   * @returns the URL to which the browser goes. It has nothing of the client: no
   * `redirect_uri`, no `state`, no scope.
   */
  async begin(uid: string): Promise<string> {
    this.#forget(uid);
    const login = {
      state: randomState(),
      nonce: randomNonce(),
      verifier: randomPKCECodeVerifier(),
    };
    this.#logins.set(uid, login);
    this.#interactions.set(login.state, uid);
    if (this.#logins.size > MOST_LOGINS) this.#forget(this.#logins.keys().next().value!);
    return buildAuthorizationUrl(this.config, {
      redirect_uri: this.callbackUrl,
      scope: 'openid',
      state: login.state,
      nonce: login.nonce,
      code_challenge: await calculatePKCECodeChallenge(login.verifier),
      code_challenge_method: 'S256',
    }).href;
  }

  interactionOf(state: string | null): string | undefined {
    return state === null ? undefined : this.#interactions.get(state);
  }

  /**
   * @returns the id of the user. The tokens of the identity provider end here: no client
   * gets them.
   * @throws Error when the answer does not belong to the login that this interaction has
   * begun
   */
  async finish(uid: string, search: string): Promise<string> {
    const login = this.#logins.get(uid);
    this.#forget(uid);
    if (!login)
      throw Object.assign(new Error('This login is over. Begin again.'), { status: 400 });
    try {
      const tokens = await authorizationCodeGrant(
        this.config,
        new URL(this.callbackUrl + search),
        {
          expectedState: login.state,
          expectedNonce: login.nonce,
          pkceCodeVerifier: login.verifier,
          idTokenExpected: true,
        },
      );
      return tokens.claims()!.sub;
    } catch (cause) {
      throw Object.assign(
        new Error('The identity provider did not confirm the login.', { cause }),
        { status: 400 },
      );
    }
  }

  #forget(uid: string): void {
    const login = this.#logins.get(uid);
    if (login) this.#interactions.delete(login.state);
    this.#logins.delete(uid);
  }
}
// #endregion
