"""The handshake, against an implementation of Noise that is not ours, and against what is cut or changed."""

from __future__ import annotations

from random import Random

import pytest
from noise.connection import Keypair, NoiseConnection

from isthmus.live.seal.noise import NAMES, Answerer, Greeter, public_of
from isthmus.live.seal.wire import SealError


class Ends:
    """Both ends of ours and of theirs, with the same keys."""

    def __init__(self, identity: bool, random: Random) -> None:
        draw = random.randbytes
        psk, prologue = draw(32), draw(random.randrange(80))
        self.ephemeral = [draw(32), draw(32)]
        static = [draw(32), draw(32)] if identity else [b"", b""]
        self.greeter = Greeter(psk, prologue, self.ephemeral[0], static[0])
        self.answerer = Answerer(psk, prologue, static[1])
        self.theirs = [NoiseConnection.from_name(NAMES[identity]) for _ in range(2)]
        for number, end in enumerate(self.theirs):
            end.set_psks(psk=psk)
            end.set_prologue(prologue)
            if identity:
                end.set_keypair_from_private_bytes(Keypair.STATIC, static[number])
            end.set_keypair_from_private_bytes(Keypair.EPHEMERAL, self.ephemeral[number])
            (end.set_as_responder if number else end.set_as_initiator)()
            end.start_handshake()
        self.public = [public_of(key) for key in static] if identity else [b"", b""]


@pytest.mark.parametrize("identity", [False, True])
def test_a_hundred_handshakes_are_equal_byte_for_byte(identity: bool) -> None:
    random = Random(1)
    for _ in range(100):
        ends = Ends(identity, random)
        one, two = (random.randbytes(random.randrange(60)) for _ in range(2))
        first = ends.greeter.write(one)
        assert first == bytes(ends.theirs[0].write_message(one))
        assert ends.answerer.read(first) == one == bytes(ends.theirs[1].read_message(first))
        second = ends.answerer.write(two, ends.ephemeral[1])
        assert second == bytes(ends.theirs[1].write_message(two))
        payload, static, state = ends.greeter.read(second)
        assert payload == two == bytes(ends.theirs[0].read_message(second))
        assert (ends.answerer.greeter_identity, static) == (ends.public[0], ends.public[1])
        cipher = ends.theirs[0].noise_protocol
        assert state.split() == ends.answerer.state.split()
        assert state.split() == (cipher.cipher_state_encrypt.k, cipher.cipher_state_decrypt.k)


@pytest.mark.parametrize("identity", [False, True])
def test_a_message_that_is_changed_or_cut_does_not_open_and_the_true_one_still_does(identity: bool) -> None:
    random = Random(2)
    ends = Ends(identity, random)
    first = ends.greeter.write(b"payload")
    second = Ends(identity, Random(2))
    for place in range(len(first)):
        changed = first[:place] + bytes([first[place] ^ 1 << random.randrange(8)]) + first[place + 1 :]
        answerer = Ends(identity, Random(2)).answerer
        if place == 31 and changed[31] ^ first[31] == 0x80:
            continue  # the highest bit of a curve's point is not part of it; the transcript differs all the same
        with pytest.raises(SealError):
            answerer.read(changed)
    ends.answerer.read(first)
    answer = ends.answerer.write(b"answer", ends.ephemeral[1])
    for place in range(len(answer)):
        changed = answer[:place] + bytes([answer[place] ^ 1 << random.randrange(8)]) + answer[place + 1 :]
        for forged in (changed, answer[:place]):
            with pytest.raises(SealError):
                ends.greeter.read(forged)
    assert ends.greeter.read(answer)[0] == b"answer"
    assert second.answerer.read(first) == b"payload"


def test_a_point_of_low_order_agrees_on_nothing() -> None:
    ends = Ends(False, Random(3))
    ends.answerer.read(ends.greeter.write(b""))
    answer = ends.answerer.write(b"", ends.ephemeral[1])
    with pytest.raises(SealError):
        ends.greeter.read(bytes(32) + answer[32:])
