import { Body, Controller, HttpCode, Injectable, Module, Post, UnauthorizedException } from '@nestjs/common';
import { JwtModule, JwtService } from '@nestjs/jwt';
import { ApiOkResponse, ApiProperty, ApiTags } from '@nestjs/swagger';
import { IsString } from 'class-validator';
import { JWT_SECRET } from '../settings.js';
import { Public } from './public.decorator.js';

/** For trying out: of a real app, in its database, and hashed. */
const PASSWORDS = new Map([
  ['ann', 'secret of ann'],
  ['bob', 'secret of bob'],
]);

export class LoginDto {
  @ApiProperty({ example: 'ann' })
  @IsString()
  name!: string;

  @ApiProperty({ example: 'secret of ann' })
  @IsString()
  password!: string;
}

@Injectable()
export class AuthService {
  constructor(private readonly jwt: JwtService) {}

  /** @returns a token @throws UnauthorizedException */
  async login({ name, password }: LoginDto): Promise<string> {
    if (PASSWORDS.get(name) !== password) throw new UnauthorizedException('No such user, or another password.');
    return this.jwt.signAsync({ sub: `user-${name}`, name });
  }
}

@ApiTags('auth')
@Controller('auth')
export class AuthController {
  constructor(private readonly auth: AuthService) {}

  @Public()
  @Post('login')
  @HttpCode(200)
  @ApiOkResponse({ description: '`{ data: { token } }`' })
  async login(@Body() credentials: LoginDto): Promise<{ token: string }> {
    return { token: await this.auth.login(credentials) };
  }
}

@Module({
  // Global, for the guard.
  imports: [JwtModule.register({ global: true, secret: JWT_SECRET, signOptions: { expiresIn: '1h' } })],
  controllers: [AuthController],
  providers: [AuthService],
})
export class AuthModule {}
